"""How accurate an adapter's builtins are, where WGSL leaves that open or caps it generously: measured once a runner."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from pytest_webgpu.conformance.running_error import Calibration
from pytest_webgpu.gpu.job import Runner

_known: WeakKeyDictionary[Any, Calibration] = WeakKeyDictionary()


def calibration_of(runner: Runner) -> Calibration:
    """The runner's calibration, measured at the first call."""
    if runner not in _known:
        _known[runner] = Calibration()
    return _known[runner]
