"""The commands that time something on a native device, and what does each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_webgpu.gpu import job, measure
from pytest_webgpu.gpu.device_time import measure_device_time
from pytest_webgpu.gpu.trace import trace

TIMINGS: dict[type, Callable[..., dict[str, Any]]] = {
    job.Measure: measure.measure,
    job.MeasureWaits: measure.measure_waits,
    job.MeasurePhases: measure.measure_phases,
    job.MeasureCreation: measure.measure_creation,
    job.MeasureTransfers: measure.measure_transfers,
    job.MeasureDeviceTime: measure_device_time,
    job.Trace: trace,
}
