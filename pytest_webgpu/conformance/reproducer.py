"""Leaves a failure behind as a folder that shows it without this project: what one files with a driver's maintainers.

It holds kernel.wgsl as it was compiled, case.json (every binding's bytes, the dispatches, the wanted elements and
their bounds), reproduce.py (numpy and the implementation's Python package) and reproduce.html (any browser).
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from pytest_webgpu.conformance.bounds import Bounded
from pytest_webgpu.conformance.execute import FILL, Planned, contents
from pytest_webgpu.conformance.failure import Subject
from pytest_webgpu.gpu.shader import prepare

DTYPES = {"f32": "<f4", "f16": "<f2", "i32": "<i4", "u32": "<u4", "i8": "i1"}
MODULES = {"dawn": ("wgpudawn", "wgpudawn"), "wgpu-native": ("wgpu", "wgpu")}
SUBGROUPS = {"wgpu-native": "subgroup"}  # where the library's name of the feature is not WebGPU's


def write(
    folder: Path, subject: Subject, planned: Planned, wanted: Mapping[str, Bounded], about: str
) -> Path:  # fmt: skip
    """The folder, made anew inside `folder` and named after kernel and case. `about` is the failure's report."""
    info, kernel = subject.info, planned.launch.kernel
    mark = hashlib.sha256((kernel.sha + planned.case.to_json()).encode()).hexdigest()[:8]
    place = folder / f"{kernel.name.replace('[', '-').replace(']', '')}-{mark}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    code = prepare(kernel.code, kernel.features, info.implementation, info.features).text
    case = _case(subject, planned, wanted)
    (place / "kernel.wgsl").write_text(code, encoding="utf-8")
    (place / "case.json").write_text(json.dumps(case), encoding="utf-8")
    module, package = MODULES.get(info.implementation, MODULES["wgpu-native"])
    _fill(place / "reproduce.py", about=about.replace("\\", "/").replace('"""', "'''"), module=module, package=package)
    for_web = prepare(kernel.code, kernel.features, "chrome", info.features).text
    script = {"code": json.dumps(for_web).replace("</", "<\\/"), "case": json.dumps(case)}
    _fill(place / "reproduce.html", title=html.escape(subject.title), about=html.escape(about), **script)
    return place


def _fill(target: Path, **values: str) -> None:
    text = (files("pytest_webgpu.conformance") / (target.name + ".template")).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    target.write_text(text, encoding="utf-8")


def _case(subject: Subject, planned: Planned, wanted: Mapping[str, Bounded]) -> dict[str, Any]:
    made, implementation = planned.launch, subject.info.implementation
    types = {a.variable: s.type for p in made.passes for a, s in zip(made.bound(p.entry), made.slots(p.entry),
                                                                      strict=True)}  # fmt: skip
    features = sorted(made.kernel.features)
    return {
        "op": subject.contract.name,
        "adapter": subject.info.adapter,
        "features": [SUBGROUPS.get(implementation, f) if f == "subgroups" else f for f in features],
        "web_features": features,
        "bindings": [
            {"variable": a.variable, "group": a.group, "binding": a.binding, "type": types[a.variable],
             "data": _text(contents(planned, a, FILL["base"])[0])}
            for a in made.arguments if a.variable in types
        ],
        "passes": [
            {"entry": p.entry, "workgroups": p.workgroups, "constants": dict(p.constants),
             "bindings": [a.variable for a in made.bound(p.entry)]}
            for p in made.passes
        ],
        "outputs": [
            {"variable": a.variable, "name": a.name, "dtype": DTYPES[a.dtype], "shape": a.shape,
             "count": int(np.prod(a.shape)), "wanted": _doubles(wanted[a.name].value),
             "bound": _doubles(wanted[a.name].bound)}
            for a in made.arguments if a.name in wanted and a.role == "tensor" and a.output and a.dtype in DTYPES
        ],
    }  # fmt: skip


def _doubles(values: Any) -> str:
    return _text(values.cpu().double().contiguous().numpy().astype("<f8").tobytes())


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
