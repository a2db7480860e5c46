"""A timeline of one token as Perfetto reads it (ui.perfetto.dev), and how much memory its buffers took at most.

The host's track is one issue of the token's program. The device's is another, each dispatch in a pass of its own
between two timestamps: its clock is another one, and so it is drawn from where the host submits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu.job import Job, MeasureDeviceTime, MeasureMemory, Runner, Trace
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.performance.clocks import clocks
from pytest_webgpu.performance.device import FEATURE
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.generate import Generator

Span = tuple[str, float, float]  # name, begin, end in seconds
HOST, DEVICE = 1, 2  # tracks
GENERATED = 8  # tokens before the one that is drawn


@dataclass(frozen=True)
class Timeline:
    """One token. `host` and `device`: spans in seconds from the token's beginning (no `device` without timestamps).

    `labels`: what each dispatch is, by the plan. `peak_bytes`: of buffers, from the first to the last token;
    `driver_bytes`: what the driver says the whole GPU has in use, where it tells.
    """

    title: str
    host: Sequence[Span]
    device: Sequence[Span]
    labels: Sequence[str]
    peak_bytes: int
    driver_bytes: int | None

    def events(self, process: int) -> list[dict[str, Any]]:
        """Trace events (the JSON format of Chrome's tracing, which Perfetto reads), times in microseconds."""
        found: list[dict[str, Any]] = [_named(process, None, "process_name", self.title)]
        memory = {"buffers, peak bytes": self.peak_bytes}
        found.append({"ph": "C", "pid": process, "name": "GPU memory", "ts": 0, "args": memory})
        for track, name, spans in ((HOST, "host", self.host), (DEVICE, "device", self.device)):
            if spans:
                found.append(_named(process, track, "thread_name", name))
            found += [
                {"ph": "X", "pid": process, "tid": track, "name": label, "ts": 1e6 * begin, "dur": 1e6 * (end - begin)}
                for label, begin, end in spans
            ]
        return found


def _named(process: int, track: int | None, what: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "name": what, "args": {"name": name}, **({"tid": track} if track else {})}


class TraceFile:
    """Timelines of a run, a process each, in one file that is written whole each time one is added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events: list[dict[str, Any]] = []
        self._added = 0

    def add(self, timeline: Timeline) -> None:
        self._added += 1
        self._events += timeline.events(self._added)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(self.path.name + ".unfinished")
        unfinished.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": self._events}), encoding="utf-8")
        unfinished.replace(self.path)


def token_timeline(runner: Runner, model: str, dtype: str, fusions: str, library: Library) -> Timeline:
    """Of a token after a few others. Raises CompilerError, ModelError and GpuError as generation does."""
    runner.run(Job((MeasureMemory(),)))  # whose peak begins here
    generator = Generator(find_model(model), runner, dtype, fusions, 2 * GENERATED, library=library)
    try:
        generator.generate(generator.model.drawn_prompt(2), GENERATED)
        plan = generator.plan(1)
        found = drawn(runner, generator.session.program(plan, "body"), plan)
    finally:
        generator.close()
    return Timeline(f"{generator.model.name} {dtype}, fusions {fusions}", *found)


def drawn(runner: Runner, program: str, plan: Plan) -> tuple[list[Span], list[Span], list[str], int, int | None]:
    """Host spans, device spans, labels, peak bytes and the driver's, of a plan's program that was run before."""
    labels = [f"{s.op}: {s.kernel}" for s in plan.steps if s.section == "body" for _ in s.passes]
    value = runner.run(Job((Trace(program),))).values[0]
    assert value is not None
    host: list[Span] = []
    names = iter(labels)
    for name, begin, end in value["host"]:
        host.append((next(names) if name == "dispatch" else name, begin, end))
    device: list[Span] = []
    if FEATURE in runner.info.features:
        stamped = runner.run(Job((MeasureDeviceTime(program, rounds=1),))).values[0]
        assert stamped is not None
        submitted = next(end for name, _, end in value["host"] if name == "submit")
        device = [
            (label, submitted + began, submitted + began + seconds)
            for label, began, seconds in zip(labels, stamped["began_seconds"][0], stamped["seconds"][0], strict=True)
        ]
    memory = runner.run(Job((MeasureMemory(),))).values[0]
    assert memory is not None
    told = clocks(runner.info)
    return host, device, labels, int(memory["peak_bytes"]), told["used_bytes"] if told else None
