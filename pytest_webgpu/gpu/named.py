"""What a device that cannot be reached by a call holds by name: its jobs are checked here before they are sent.

The checks, and so the errors, are those of the native implementations (checks.py), so that a browser needs none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pytest_webgpu.gpu.buffers import check_range
from pytest_webgpu.gpu.checks import check_dispatch, check_slots, whole_size
from pytest_webgpu.gpu.job import (
    Command,
    CopyBuffer,
    Drop,
    FillBuffer,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    Measure,
    MeasureCreation,
    MeasureDeviceTime,
    MeasurePhases,
    MissingFeature,
    ReadBuffer,
    RunProgram,
    Slot,
    Trace,
    ValidationError,
    WriteBuffer,
)
from pytest_webgpu.gpu.shader import Source, prepare


@dataclass(frozen=True)
class HeldBuffer:
    size: int
    usage: str


class Named:
    """The names that a device holds, as the commands sent to it have made them."""

    def __init__(self, implementation: str, features: Collection[str], limits: Mapping[str, int]) -> None:
        self._implementation, self._features, self._limits = implementation, features, limits
        self.buffers: dict[str, HeldBuffer] = {}
        self.pipelines: dict[str, tuple[Slot, ...]] = {}
        self.programs: set[str] = set()
        self.sources: dict[int, Source] = {}  # by command of the job being checked: what its compiler gets

    def copy(self) -> Named:
        other = Named(self._implementation, self._features, self._limits)
        other.buffers, other.pipelines = dict(self.buffers), dict(self.pipelines)
        other.programs = set(self.programs)
        return other

    def apply(self, index: int, command: Command) -> Command:
        """The command as the device gets it, sizes filled in. Raises what native.py would raise before any call."""
        match command:
            case MakeBuffer():
                return self._make_buffer(command)
            case WriteBuffer():
                self._range(command.name, command.offset, memoryview(command.data).nbytes, "write")
            case FillBuffer():
                return replace(command, size=self._range(command.name, command.offset, command.size, "fill"))
            case ReadBuffer():
                return replace(command, size=self._range(command.name, command.offset, command.size, "read"))
            case CopyBuffer():
                self._range(command.source, command.source_offset, command.size, "copy from")
                self._range(command.target, command.target_offset, command.size, "copy to")
                if command.source == command.target:
                    raise ValidationError("A copy within one buffer is not allowed")
            case MakePipeline():
                return self._make_pipeline(index, command)
            case MakeProgram():
                self._make_program(command)
            case RunProgram():
                self._program(command.name)
                if command.collect:
                    self._range(command.collect.buffer, command.collect.offset, command.collect.size, "collect")
            case Measure():
                for variant in command.variants:
                    self._program(variant.program)
            case MeasurePhases() | MeasureCreation() | Trace():
                self._program(command.program)
            case MeasureDeviceTime():
                self._program(command.program)
                if "timestamp-query" not in self._features:
                    raise MissingFeature("Device time needs the feature 'timestamp-query'.", feature="timestamp-query")
            case Drop():
                self._drop(command)
        return command

    def _make_buffer(self, c: MakeBuffer) -> Command:
        size = whole_size(c.size, self._limits)
        self.buffers[c.name] = HeldBuffer(size, c.usage)
        return replace(c, size=size)

    def _range(self, name: str, offset: int, size: int | None, what: str) -> int:
        if name not in self.buffers:
            raise ValidationError(f"There is no buffer {name!r}.")
        held = self.buffers[name]
        size = held.size - offset if size is None else size
        check_range(held, offset, size, what)
        return size

    def _make_pipeline(self, index: int, c: MakePipeline) -> Command:
        check_slots(c.slots, c.workgroup_bytes, self._limits, f"Pipeline {c.name!r}")
        self.sources[index] = source = prepare(c.code, c.enable, self._implementation, self._features)
        self.pipelines[c.name] = c.slots
        return replace(c, code=source.text)

    def _make_program(self, c: MakeProgram) -> None:
        for i, d in enumerate(c.dispatches):
            where = f"Program {c.name!r}, dispatch {i}" + (f" ({d.label})" if d.label else "")
            if d.pipeline not in self.pipelines:
                raise ValidationError(f"{where}: there is no pipeline {d.pipeline!r}")
            check_dispatch(d, self.pipelines[d.pipeline], self.buffers, self._limits, where)
        self.programs.add(c.name)

    def _program(self, name: str) -> None:
        if name not in self.programs:
            raise ValidationError(f"There is no program {name!r}.")

    def _drop(self, c: Drop) -> None:
        for pattern in c.names:
            for names in (self.buffers, self.pipelines, self.programs):
                fits = [n for n in names if n.startswith(pattern[:-1])] if pattern.endswith("*") else [pattern]
                for name in fits:
                    names.discard(name) if isinstance(names, set) else names.pop(name, None)
