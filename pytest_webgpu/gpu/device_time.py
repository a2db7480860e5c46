"""The device's own time of a program or of each of its dispatches, by timestamp queries."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from pytest_webgpu.gpu.job import MeasureDeviceTime, MissingFeature, ValidationError
from pytest_webgpu.gpu.program import encode_steps

if TYPE_CHECKING:
    from pytest_webgpu.gpu.native import NativeRunner

MOST_DISPATCHES = 2048  # a query set holds 4,096 timestamps, two a dispatch


def measure_device_time(runner: NativeRunner, command: MeasureDeviceTime) -> dict[str, Any]:
    """Each dispatch, or the program `repeats` times, in a pass whose beginning and end the device stamps."""
    if "timestamp-query" not in runner.info.features:
        raise MissingFeature("Device time needs the feature 'timestamp-query'.", feature="timestamp-query")
    steps = runner.program(command.program).steps
    if not 0 < len(steps) <= MOST_DISPATCHES:
        raise ValidationError(f"Program {command.program!r} has {len(steps)} dispatches: 1 to {MOST_DISPATCHES} fit")
    device, usage, calls = runner.device, runner.module.BufferUsage, runner.calls
    passes = [(step,) for step in steps] if command.repeats is None else [steps * command.repeats]
    runs = command.repeats or 1
    count = 2 * len(passes)
    queries = device.create_query_set(type="timestamp", count=count)
    stamps = device.create_buffer(size=8 * count, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
    rounds: list[list[int]] = []
    runner.settle()
    for _ in range(command.rounds + 1):  # the first compiles
        encoder = device.create_command_encoder()
        for i, held in enumerate(passes):
            writes = {
                "query_set": queries, "beginning_of_pass_write_index": 2 * i, "end_of_pass_write_index": 2 * i + 1,
            }  # fmt: skip
            compute_pass = encoder.begin_compute_pass(timestamp_writes=writes)
            encode_steps(calls, calls.handle(compute_pass), held)
            compute_pass.end()
        encoder.resolve_query_set(queries, 0, count, stamps, 0)
        device.queue.submit([encoder.finish()])
        rounds.append(memoryview(device.queue.read_buffer(stamps)).cast("B").cast("Q").tolist())
    issued = command.rounds + 1
    for name, n in (("dispatches", len(steps) * runs), ("passes", len(passes)), ("submits", 2), ("reads", 1)):
        runner.counts[name] += n * issued
    runner.counts["bytes_read"] += 8 * count * issued
    period = _tick_seconds(runner)
    quantum = math.gcd(*(tick - stamped[0] for stamped in rounds for tick in stamped))
    seconds = [
        [(end - begin) * period / runs for begin, end in zip(stamped[::2], stamped[1::2], strict=True)]
        for stamped in rounds[1:]
    ]
    began = [[(begin - stamped[0]) * period for begin in stamped[::2]] for stamped in rounds[1:]]
    return {"seconds": seconds, "began_seconds": began, "quantum_seconds": quantum * period}


def _tick_seconds(runner: NativeRunner) -> float:
    """WebGPU's timestamps are nanoseconds; wgpu-native hands out the device's ticks, with their length apart."""
    if runner.info.implementation != "wgpu-native":
        return 1e-9
    api = importlib.import_module("wgpu.backends.wgpu_native._api")
    return float(api.lib.wgpuQueueGetTimestampPeriod(runner.device.queue._internal)) * 1e-9
