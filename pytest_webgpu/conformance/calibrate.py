"""How accurate an adapter's builtins are, where WGSL leaves that open or caps it generously: measured once a runner.

The constant is twice what was measured, at least one unit in the last place, at most the specification's. An adapter
that is worse than the specification is a finding about the adapter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.conformance.running_error import Calibration
from pytest_webgpu.gpu.job import (
    Bound,
    Dispatch,
    Drop,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    ReadBuffer,
    Runner,
    RunProgram,
    Slot,
    WriteBuffer,
)

POINTS = 1 << 14
FAR = 4096.0  # radians
Array = NDArray[Any]


@dataclass(frozen=True)
class Probe:
    """A builtin on a range: WGSL, the same in numpy, and the error that the specification allows there."""

    name: str
    wgsl: str
    exact: Any
    low: float
    high: float
    allowed: Any  # (x, exact value, one unit in the last place) -> absolute error, or None

    def points(self) -> Array:
        if self.low > 0:
            return np.geomspace(self.low, self.high, POINTS).astype(np.float32)
        return np.linspace(self.low, self.high, POINTS).astype(np.float32)


PROBES = (
    Probe("sin", "sin(x)", np.sin, -math.pi, math.pi, lambda x, y, ulp: 2.0**-11),
    Probe("cos", "cos(x)", np.cos, -math.pi, math.pi, lambda x, y, ulp: 2.0**-11),
    Probe("sin, far", "sin(x)", np.sin, -FAR, FAR, None),
    Probe("cos, far", "cos(x)", np.cos, -FAR, FAR, None),
    Probe("tanh", "tanh(x)", np.tanh, -9, 9, lambda x, y, ulp: 1e-5),
    Probe("tanh, large", "tanh(x)", np.tanh, -100, 100, lambda x, y, ulp: 1e-5),
    Probe("exp", "exp(x)", np.exp, -80, 80, lambda x, y, ulp: (3 + 2 * np.abs(x)) * ulp),
    Probe("exp2", "exp2(x)", np.exp2, -120, 120, lambda x, y, ulp: (3 + 2 * np.abs(x)) * ulp),
    Probe("log", "log(x)", np.log, 1e-30, 1e30, lambda x, y, ulp: np.maximum(3 * ulp, _near_one(x))),
    Probe("inverseSqrt", "inverseSqrt(x)", lambda x: 1 / np.sqrt(x), 1e-30, 1e30, lambda x, y, ulp: 2 * ulp),
    Probe("sqrt", "sqrt(x)", np.sqrt, 1e-30, 1e30, lambda x, y, ulp: 4.5 * ulp),
    Probe("1 / x", "1.0 / x", lambda x: 1 / x, 1e-30, 1e30, lambda x, y, ulp: 2.5 * ulp),
)


def _near_one(x: Array) -> Array:
    return np.where((x >= 0.5) & (x <= 2), 2.0**-21, 0.0)


def measure(runner: Runner) -> tuple[Calibration, list[str]]:
    """The calibration, and in words what is worse than the specification allows."""
    found = _run(runner)
    errors, findings = {}, []
    for probe, got in zip(PROBES, found, strict=True):
        x = probe.points().astype(np.float64)
        wanted = probe.exact(x)
        error = np.nan_to_num(np.abs(got - wanted), nan=np.inf)
        errors[probe.name] = error
        if probe.allowed is not None:
            ulp = np.exp2(np.floor(np.log2(np.maximum(np.abs(wanted), 2.0**-126))) - 23)
            over = error / probe.allowed(x, wanted, ulp)
            if (worst := int(over.argmax())) is not None and over[worst] > 1:
                findings.append(
                    f"{probe.name} is less accurate than WGSL allows: at x = {x[worst]:.9g} it gives {got[worst]:.9g}, "
                    f"{over[worst]:.3g} times the error allowed"
                )
    near = {name: float(errors[name].max()) for name in ("sin", "cos", "tanh")}
    ulp_of_one = 2.0**-24  # just below 1, where these functions are steepest in units in the last place
    constants = {n: min(max(2 * e, ulp_of_one), cap) for (n, e), cap in zip(near.items(), (2.0**-11, 2.0**-11, 1e-5),
                                                                            strict=True)}  # fmt: skip
    slope = 0.0
    for probe in PROBES[2:4]:
        size = np.maximum(np.abs(probe.points().astype(np.float64)), math.pi)
        slope = max(slope, float((errors[probe.name] / size).max()))
    return Calibration(**constants, far=max(2 * slope, 2.0**-24)), findings


def _run(runner: Runner) -> list[Array]:
    body = "\n".join(
        f"    {{ let x = xs[i + {n * POINTS}u]; ys[i + {n * POINTS}u] = {p.wgsl}; }}" for n, p in enumerate(PROBES)
    )
    code = (
        "@group(0) @binding(0) var<storage, read> xs: array<f32>;\n"
        "@group(0) @binding(1) var<storage, read_write> ys: array<f32>;\n"
        "@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        f"    let i = id.x;\n{body}\n}}\n"
    )
    points = np.concatenate([p.points() for p in PROBES])
    name = "calibrate/"
    slots = (Slot(0, 0, "read-only-storage"), Slot(0, 1, "storage"))
    bound = (Bound(0, 0, name + "x"), Bound(0, 1, name + "y"))
    job = Job((
        MakeBuffer(name + "x", points.nbytes), MakeBuffer(name + "y", points.nbytes),
        WriteBuffer(name + "x", points.tobytes()), MakePipeline(name + "pipeline", code, "main", slots),
        MakeProgram(name + "program", (Dispatch(name + "pipeline", bound, (POINTS // 64, 1, 1)),)),
        RunProgram(name + "program"), ReadBuffer(name + "y"), Drop((name + "*",)),
    ))  # fmt: skip
    result = runner.run(job)
    values = np.frombuffer(result.blob(-2), np.float32).astype(np.float64)
    return list(values.reshape(len(PROBES), POINTS))


_known: WeakKeyDictionary[Any, tuple[Calibration, list[str]]] = WeakKeyDictionary()


def calibration_of(runner: Runner) -> Calibration:
    """The runner's calibration, measured at the first call."""
    return _measured(runner)[0]


def findings_of(runner: Runner) -> list[str]:
    """What of the runner's adapter is less accurate than WGSL allows."""
    return _measured(runner)[1]


def _measured(runner: Runner) -> tuple[Calibration, list[str]]:
    if runner not in _known:
        _known[runner] = measure(runner)
    return _known[runner]
