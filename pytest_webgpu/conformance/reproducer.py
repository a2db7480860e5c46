"""Leaves a failure behind as a folder that shows it without this project: what one files with a driver's maintainers.

It holds kernel.wgsl as it was compiled, case.json (every binding's bytes, with what each variant puts behind them and
which of them must stay, the dispatches, the wanted elements and their bounds), reproduce.py (numpy and the
implementation's Python package) and reproduce.html (any browser). Both repeat what the verdict came from: equal runs,
other words in outputs and behind the ends, invocations numbered backwards.
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
from pytest_webgpu.conformance.execute import FILL, Planned, Variant, contents, word_behind
from pytest_webgpu.conformance.failure import Subject
from pytest_webgpu.gpu.shader import prepare
from pytest_webgpu.kernels.reverse import reversed_source
from pytest_webgpu.ops.launch import BoundArgument

DTYPES = {"f32": "<f4", "f16": "<f2", "i32": "<i4", "u32": "<u4", "i8": "i1"}
MODULES = {"dawn": ("wgpudawn", "wgpudawn"), "wgpu-native": ("wgpu", "wgpu")}
FILLS: tuple[Variant, ...] = ("base", "high", "low")
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
    case = _case(subject, planned, wanted)
    (place / "kernel.wgsl").write_text(_prepared(subject, kernel.code, info.implementation), encoding="utf-8")
    (place / "case.json").write_text(json.dumps(case), encoding="utf-8")
    module, package = MODULES.get(info.implementation, MODULES["wgpu-native"])
    _fill(place / "reproduce.py", about=about.replace("\\", "/").replace('"""', "'''"), module=module, package=package)
    sources = {"": kernel.code} | {
        p.entry: code for p in planned.launch.passes if (code := reversed_source(kernel, p.entry)) is not None
    }
    for entry, code in sources.items():
        if entry:
            text = _prepared(subject, code, info.implementation)
            (place / f"backwards.{entry}.wgsl").write_text(text, encoding="utf-8")
    for_web = {entry: _prepared(subject, code, "chrome") for entry, code in sources.items()}
    script = {"codes": json.dumps(for_web).replace("</", "<\\/"), "case": json.dumps(case)}
    _fill(place / "reproduce.html", title=html.escape(subject.title), about=html.escape(about), **script)
    return place


def _fill(target: Path, **values: str) -> None:
    text = (files("pytest_webgpu.conformance") / (target.name + ".template")).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    target.write_text(text, encoding="utf-8")


def _prepared(subject: Subject, code: str, implementation: str) -> str:
    return prepare(code, subject.kernel.features, implementation, subject.info.features).text


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
        "deterministic": subject.contract.deterministic and made.kernel.header.deterministic,
        "kernel": hashlib.sha256(_prepared(subject, made.kernel.code, implementation).encode()).hexdigest(),
        "bindings": [
            {"variable": a.variable, "name": a.name, "group": a.group, "binding": a.binding,
             "type": types[a.variable], **_bytes(planned, a)}
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


def _bytes(planned: Planned, a: BoundArgument) -> dict[str, Any]:
    """What a binding holds: `data`, then up to `size` a word again and again, counted from the binding's start and
    another in each variant; and the ranges of bytes that must stay as they are."""
    content, known = contents(planned, a, FILL["base"])
    stay: list[tuple[int, int]] = []
    if a.role != "uniform" and a.access != "read":
        stay.append((a.size, len(content)))
        if a.role != "scratch" and not (a.role == "tensor" and a.output):
            stay.append((0, known))
    words = {variant: word_behind(a, FILL[variant]) for variant in FILLS}
    return {"data": _text(content[:known]), "size": len(content), "words": words, "stay": stay}


def _doubles(values: Any) -> str:
    return _text(values.cpu().double().contiguous().numpy().astype("<f8").tobytes())


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
