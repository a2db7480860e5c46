"""When the host did what while it issued a program once."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_webgpu.gpu.job import Trace
from pytest_webgpu.gpu.measure import undisturbed
from pytest_webgpu.gpu.program import encode_steps

if TYPE_CHECKING:
    from pytest_webgpu.gpu.native import NativeRunner


def trace(runner: NativeRunner, command: Trace) -> dict[str, Any]:
    """The program's dispatches in one pass, as generation issues them, with a reading of the clock after each call."""
    steps, calls = runner.program(command.program).lean, runner.calls
    runner.settle()
    runner.issue(steps, len(steps), "one-pass")
    runner.wait()
    marks: list[tuple[str, float]] = []
    with undisturbed():
        began = perf_counter()
        encoder = calls.encoder()
        marks.append(("encoder", perf_counter()))
        compute_pass = calls.begin_pass(encoder)
        marks.append(("pass-begin", perf_counter()))
        for step in steps:
            encode_steps(calls, compute_pass, (step,))
            marks.append(("dispatch", perf_counter()))
        calls.end_pass(compute_pass)
        marks.append(("pass-end", perf_counter()))
        commands = calls.finish(encoder)
        marks.append(("finish", perf_counter()))
        calls.submit(commands)
        marks.append(("submit", perf_counter()))
        runner.wait()
        marks.append(("wait", perf_counter()))
    for name, issued in (("dispatches", len(steps)), ("passes", 1), ("submits", 1)):
        runner.counts[name] += issued
    ends = [end - began for _, end in marks]
    return {"host": [[name, begin, end] for (name, _), begin, end in zip(marks, [0.0, *ends], ends, strict=False)]}
