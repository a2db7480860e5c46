"""Runs jobs on wgpu-native (wgpu) or Dawn (wgpudawn), in this process."""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from time import perf_counter
from typing import Any

from pytest_webgpu.gpu.adapters import Adapter, find, load, request_device, webgpu_features
from pytest_webgpu.gpu.buffers import Buffer, Buffers, check_range
from pytest_webgpu.gpu.calls import make_calls
from pytest_webgpu.gpu.job import (
    Collect,
    Command,
    CopyBuffer,
    DeviceInfo,
    Drop,
    FillBuffer,
    GpuError,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    MeasureMemory,
    Mode,
    ReadBuffer,
    Result,
    RunProgram,
    ValidationError,
    WriteBuffer,
)
from pytest_webgpu.gpu.limits import LimitsAsked, resolve
from pytest_webgpu.gpu.program import Maker, Pipeline, Program, Step, encode_pass
from pytest_webgpu.gpu.shader import translate
from pytest_webgpu.gpu.timings import TIMINGS

FEATURES = ("shader-f16", "subgroups", "timestamp-query")
IN_FLIGHT = 8  # repetitions between two marks; at most three times as many are submitted and not finished


class NativeRunner:
    """A device of `adapter` and everything made on it. A hang hangs this process: WorkerRunner's does not.

    Asks for every feature of FEATURES that the adapter has and `without` does not name, and for WebGPU's default
    limits unless `limits` says otherwise (limits.resolve). `notes` says which defaults the adapter falls short of.
    """

    generation = 0

    def __init__(
        self, adapter: Adapter, limits: LimitsAsked = None, without: Collection[str] = (), public_calls: bool = False
    ):
        module = load(adapter.info.implementation)
        requested, self.notes = resolve(adapter.info.limits, limits)
        features = [f for f in FEATURES if f in adapter.info.features and f not in without]
        _, native = find(adapter.key)
        theirs = ["subgroup" if f == "subgroups" and f not in native.features else f for f in features]
        try:
            device = request_device(adapter.info.implementation, native, theirs, requested)
        except Exception as error:
            raise translate(error) from error
        self.module, self.device = module, device
        self._info = dataclasses.replace(
            adapter.info,
            features=tuple(sorted(webgpu_features(device.features) & set(features))),
            limits={name: int(device.limits[name]) for name in requested},
        )
        implementation = adapter.info.implementation
        self.calls = make_calls(implementation, module, device, public_calls)
        self.counts: dict[str, int] = defaultdict(int)
        self.buffers = Buffers(module, device, self.calls, self._info.limits, self.counts)
        self._maker = Maker(
            module, device, self.calls, implementation, self._info.features, self._info.limits, self.counts
        )
        self._named_buffers: dict[str, Buffer] = {}
        self._pipelines: dict[str, Pipeline] = {}
        self._programs: dict[str, Program] = {}
        self._blobs: list[Any] = []
        self._handlers: dict[type, Callable[[Any], dict[str, Any] | None]] = {
            MakeBuffer: self._make_buffer,
            WriteBuffer: lambda c: self.buffers.write(self._buffer(c.name), c.data, c.offset),
            FillBuffer: self._fill_buffer,
            CopyBuffer: lambda c: self.buffers.copy(
                self._buffer(c.source), self._buffer(c.target), c.size, c.source_offset, c.target_offset
            ),
            ReadBuffer: self._read_buffer,
            MakePipeline: self._make_pipeline,
            MakeProgram: self._make_program,
            RunProgram: self._run_program,
            **{kind: partial(do, self) for kind, do in TIMINGS.items()},
            MeasureMemory: lambda _: self.buffers.memory(),
            Drop: self._drop,
        }

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def run(self, job: Job, deadline: float | None = None) -> Result:
        """Runs the commands in order. `deadline` is not kept here: nothing can stop a call that hangs."""
        self.counts.clear()
        self._blobs = []
        values: list[dict[str, Any] | None] = []
        ahead = 0
        for index, command in enumerate(job.commands):
            if isinstance(command, MakePipeline) and index >= ahead:
                together = _leading_pipelines(job.commands[index:])
                self._maker.compile_ahead(together)
                ahead = index + len(together)
            try:
                values.append(self._handlers[type(command)](command))
            except GpuError as error:
                error.command = index if error.command is None else error.command
                raise
            except Exception as error:
                translated = translate(error)
                translated.command = index
                raise translated from error
        return Result(values, self._blobs, dict(self.counts))

    def close(self) -> None:
        """Forgets everything. The device goes with the last reference to this runner."""
        self._programs.clear()
        self._pipelines.clear()
        self._named_buffers.clear()

    def program(self, name: str) -> Program:
        if name not in self._programs:
            raise ValidationError(f"There is no program {name!r}; there are: {_some(self._programs)}.")
        return self._programs[name]

    def settle(self) -> None:
        """To be called before a program is issued: recycled buffers get their zeros."""
        self.buffers.settle()

    def _buffer(self, name: str) -> Buffer:
        if name not in self._named_buffers:
            raise ValidationError(f"There is no buffer {name!r}; there are: {_some(self._named_buffers)}.")
        return self._named_buffers[name]

    def _make_buffer(self, command: MakeBuffer) -> None:
        self._forget_buffer(command.name)
        self._named_buffers[command.name] = self.buffers.make(command.size, command.usage)

    def _fill_buffer(self, command: FillBuffer) -> None:
        buffer = self._buffer(command.name)
        size = buffer.size - command.offset if command.size is None else command.size
        self.buffers.fill(buffer, command.word, command.offset, size)

    def _read_buffer(self, command: ReadBuffer) -> dict[str, Any]:
        buffer = self._buffer(command.name)
        size = buffer.size - command.offset if command.size is None else command.size
        return self._blob(self.buffers.read(buffer, command.offset, size))

    def _blob(self, data: Any) -> dict[str, Any]:
        self._blobs.append(data)
        return {"blob": len(self._blobs) - 1}

    def _make_pipeline(self, command: MakePipeline) -> dict[str, Any]:
        made = self._pipelines[command.name] = self._maker.pipeline(command)
        return {"warnings": list(made.warnings)}

    def _make_program(self, command: MakeProgram) -> None:
        made = self._maker.program(command, self._pipelines, self._named_buffers)
        self._forget_program(command.name)
        self._programs[command.name] = made

    def _run_program(self, command: RunProgram) -> dict[str, Any]:
        program, collect, times = self.program(command.name), command.collect, command.times
        steps = program.lean if command.mode == "one-pass" else program.steps
        self.settle()
        copy, aside = None, None
        if collect:
            aside = self._aside(collect, times)
            source, target = (self.calls.handle(b.native) for b in (self._buffer(collect.buffer), aside))
        throttle = Throttle(self)
        began = perf_counter()
        for repetition in range(times):
            if collect:
                copy = (source, collect.offset, target, repetition * collect.size, collect.size)
            self.issue(steps, len(steps), command.mode, copy)
            throttle.after_submit()
        encoded = perf_counter()
        value: dict[str, Any] = {"encode_seconds": encoded - began - throttle.seconds}
        if command.wait:
            self.wait()
        value["seconds"] = perf_counter() - began
        if collect and aside:
            value |= self._blob(self.buffers.take(aside, times * collect.size))
        return value

    def _aside(self, collect: Collect, times: int) -> Buffer:
        check_range(self._buffer(collect.buffer), collect.offset, collect.size, "collect")
        return self.buffers.staging(collect.size * max(1, times))

    def issue(self, steps: Iterable[Step], n: int, mode: Mode, copy: tuple[Any, ...] | None = None) -> None:
        """Encodes and submits the `n` steps in `mode`; then `copy` (source, offset, target, offset, size)."""
        calls, passes, submits = self.calls, n, 1
        if mode == "one-pass" or mode == "pass-each":
            encoder = calls.encoder()
            if mode == "one-pass":
                encode_pass(calls, encoder, steps)
                passes = 1
            else:
                for step in steps:
                    encode_pass(calls, encoder, (step,))
        else:
            for step in steps:
                encoder = calls.encoder()
                encode_pass(calls, encoder, (step,))
                calls.submit(calls.finish(encoder))
                if mode == "wait-each":
                    self.wait()
            submits = n + (copy is not None)
            encoder = calls.encoder() if copy else None
        if copy:
            calls.copy(encoder, *copy)
        if encoder is not None:
            calls.submit(calls.finish(encoder))
        counts = self.counts
        counts["dispatches"] += n
        counts["passes"] += passes
        counts["submits"] += submits

    def wait(self) -> None:
        """Waits for everything that was submitted."""
        self.calls.wait()
        self.counts["waits"] += 1

    def _drop(self, command: Drop) -> None:
        for pattern in command.names:
            for names, forget in (
                (self._programs, self._forget_program),
                (self._pipelines, self._forget_pipeline),
                (self._named_buffers, self._forget_buffer),
            ):
                matches = [n for n in names if n.startswith(pattern[:-1])] if pattern.endswith("*") else [pattern]
                for name in matches:
                    forget(name)

    def _forget_buffer(self, name: str) -> None:
        if buffer := self._named_buffers.pop(name, None):
            self.buffers.release(buffer)

    def _forget_pipeline(self, name: str) -> None:
        self._pipelines.pop(name, None)

    def _forget_program(self, name: str) -> None:
        if program := self._programs.pop(name, None):
            for buffer in program.buffers:
                self.buffers.release(buffer)


class Throttle:
    """Lets the host run ahead of the device by a few repetitions and no more. `seconds` were spent on that."""

    def __init__(self, runner: NativeRunner):
        self._runner = runner
        self._since_mark = 0
        self._marks: deque[Any] = deque()
        self.seconds = 0.0

    def after_submit(self) -> None:
        self._since_mark += 1
        if self._since_mark < IN_FLIGHT:
            return
        self._since_mark = 0
        began = perf_counter()
        self._marks.append(self._runner.calls.mark())
        if len(self._marks) > 2:
            self._runner.calls.wait_for(self._marks.popleft())
            self._runner.counts["throttles"] += 1
        self.seconds += perf_counter() - began


def _leading_pipelines(commands: Iterable[Command]) -> list[MakePipeline]:
    found: list[MakePipeline] = []
    for command in commands:
        if not isinstance(command, MakePipeline):
            break
        found.append(command)
    return found


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:20]
    return ", ".join(repr(n) for n in shown) + (", ..." if len(names) > 20 else "") if names else "none"
