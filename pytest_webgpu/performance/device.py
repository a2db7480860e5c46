"""The device's own time of a program's dispatches, by timestamp queries where there are any that are fine enough."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_webgpu.gpu.job import Job, MeasureDeviceTime, Runner
from pytest_webgpu.performance.stats import Estimate, estimate

QUANTA = 100  # of the device's clock that a batch of timestamps must span to count
FEATURE = "timestamp-query"


def device_time(runner: Runner, program: str, rounds: int = 40) -> Estimate | None:
    """Seconds a dispatch of the program, each in a pass of its own. None without timestamps, or where the device's
    clock is so coarse that no two batches of rounds span 100 of its steps: then the slope is what there is.
    """
    if FEATURE not in runner.info.features:
        return None
    value = runner.run(Job((MeasureDeviceTime(program, rounds),))).values[0]
    assert value is not None
    batches = in_batches(value["seconds"], value["quantum_seconds"])
    return estimate(batches) if len(batches) > 1 else None


def in_batches(rounds: Sequence[Sequence[float]], quantum: float) -> list[float]:
    """Means over as few rounds in a row as together span 100 quanta, so that the clock's step is below 1 %."""
    batches: list[float] = []
    total, dispatches = 0.0, 0
    for seconds in rounds:
        total += sum(seconds)
        dispatches += len(seconds)
        if total >= QUANTA * quantum and total > 0:
            batches.append(total / dispatches)
            total, dispatches = 0.0, 0
    return batches
