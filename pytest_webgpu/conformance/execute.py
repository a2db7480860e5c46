"""Runs cases of a kernel: one job for a whole batch, each case in several variants.

All read-only bindings of a batch lie in one buffer and all writable ones in another, each at its own offset with
guard words behind it inside the binding (a runner clamps at the binding, so that a guard outside it would see
nothing). So a batch costs three writes, one submit and one read-back, however many cases it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.conformance.inputs import Case, materialise
from pytest_webgpu.conformance.packing import pack, unpack
from pytest_webgpu.gpu.job import (
    Bound,
    Command,
    Dispatch,
    Drop,
    GpuError,
    Job,
    LimitError,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    ReadBuffer,
    Runner,
    RunProgram,
    WriteBuffer,
)
from pytest_webgpu.kernels.reverse import reversed_source
from pytest_webgpu.ops.contract import Contract
from pytest_webgpu.ops.launch import BoundArgument, Launch, PassLaunch, launch

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource

Variant = Literal["base", "high", "low", "again", "reversed"]
FILL: dict[str, int] = {"base": 0x3F1D3F1D, "again": 0x3F1D3F1D, "reversed": 0x3F1D3F1D,
                        "high": 0x7B017B01, "low": 0xFB01FB01}  # fmt: skip
"""What guards and outputs hold beforehand. As f32 0.6, 6.7e35 and -6.7e35, as f16 1.8, 57376 and -57376: finite, so
that a kernel that reads past an end and multiplies by zero is left in peace; the first small, so that what is added
to it shows."""
BEHIND_INPUTS = 0x00400040
"""What turns that into what stands behind inputs: another word, or an output copied from there would look unwritten."""
GUARD = 1024  # bytes behind each binding's data
READ, WRITE, UNIFORM, PROGRAM = "conformance/read", "conformance/write", "conformance/uniform", "conformance/program"


@dataclass(frozen=True)
class Planned:
    """A case made ready to run: its inputs as stored, and how the kernel is launched."""

    case: Case
    launch: Launch
    inputs: Mapping[str, NDArray[Any]]


@dataclass
class Ran:
    """What one variant of a case left behind: outputs as stored, their bytes, and what should not have changed."""

    outputs: dict[str, NDArray[Any]] = field(default_factory=dict)
    raw: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    overrun: dict[str, int] = field(default_factory=dict)  # binding: guard words that were written
    changed: dict[str, int] = field(default_factory=dict)  # input: bytes that were written
    fill: int = 0


@dataclass(frozen=True)
class _Region:
    argument: BoundArgument
    offset: int
    data: int  # bytes that carry elements
    content: bytes


def plan(contract: Contract, kernel: KernelSource, case: Case) -> Planned:
    """Raises KernelError (the kernel's claim is at fault) or Unfit."""
    made = launch(contract, kernel, case.dims, case.scalars, case.tune, spare=kernel.header.guarded)
    stored = {a.name: (a.dtype, a.storage) for a in made.arguments if a.role == "tensor"}
    return Planned(case, made, materialise(case, contract, stored))


class Session:
    """A runner's pipelines and buffers, kept from case to case."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.reset()

    def reset(self) -> None:
        self.generation = getattr(self.runner, "generation", 0)
        self.pipelines: dict[Any, str] = {}
        self.forgotten: list[str] = []
        self.made = 0
        self.sizes: dict[str, int] = {}

    def forget(self, sha: str) -> None:
        """Lets go of the pipelines of a kernel that will not come again."""
        for key in [k for k in self.pipelines if k[0] == sha]:
            self.forgotten.append(self.pipelines.pop(key))

    def run(
        self, cases: Sequence[tuple[Planned, Sequence[Variant]]], deadline: float = 20.0, compiling: float = 20.0
    ) -> list[dict[Variant, Ran]]:
        """Runs each case in its variants, in one job. Raises GpuError as the runner does.

        `deadline`: seconds that the job may take, and `compiling` for each pipeline that has to be made.
        """
        if getattr(self.runner, "generation", 0) != self.generation:
            self.reset()
        limits = self.runner.info.limits
        batch = _Batch(
            limits.get("min-storage-buffer-offset-alignment", 256),
            limits.get("min-uniform-buffer-offset-alignment", 256),
        )
        commands: list[Command] = []
        dispatches: list[Dispatch] = []
        placed = []
        for planned, variants in cases:
            check_sizes(planned, limits)
            for variant in variants:
                regions, bound = batch.place(planned, FILL[variant])
                placed.append((planned, variant, regions))
                for single in planned.launch.passes:
                    pipeline = self._pipeline(planned.launch, single, variant == "reversed", commands)
                    used = planned.launch.bound(single.entry)
                    dispatches.append(Dispatch(pipeline, tuple(bound[a.variable] for a in used), single.workgroups))
        pipelines = len(commands)
        if self.forgotten:
            commands.append(Drop(tuple(self.forgotten)))
            self.forgotten = []
        job = [*self._buffers(batch), *commands, *batch.writes(), MakeProgram(PROGRAM, tuple(dispatches))]
        job += [RunProgram(PROGRAM), ReadBuffer(WRITE, 0, len(batch.write) or 4)]
        try:
            result = self.runner.run(Job(tuple(job)), deadline + compiling * pipelines)
        except GpuError:
            self.reset()
            raise
        data = np.frombuffer(result.blob(-1), np.uint8)
        ran: list[dict[Variant, Ran]] = [{} for _ in cases]
        index = {id(planned): i for i, (planned, _) in enumerate(cases)}
        for planned, variant, regions in placed:
            ran[index[id(planned)]][variant] = _read(regions, data, FILL[variant])
        return ran

    def _pipeline(self, made: Launch, single: PassLaunch, backwards: bool, commands: list[Command]) -> str:
        kernel = made.kernel
        key = (kernel.sha, kernel.variant, single.entry, backwards, tuple(sorted(single.constants.items())))
        if key not in self.pipelines:
            name = f"conformance/pipeline/{self.made}"
            self.made += 1
            code = (reversed_source(kernel, single.entry) if backwards else None) or kernel.code
            features = tuple(sorted(kernel.features))
            commands.append(
                MakePipeline(name, code, single.entry, made.slots(single.entry), single.constants, features,
                             made.workgroup_memory)
            )
            self.pipelines[key] = name
        return self.pipelines[key]

    def _buffers(self, batch: _Batch) -> Iterable[Command]:
        for name, content in ((READ, batch.read), (WRITE, batch.write), (UNIFORM, batch.uniform)):
            size = max(4, len(content))
            if self.sizes.get(name, 0) < size:
                self.sizes[name] = max(1 << 16, 1 << (size - 1).bit_length())
                yield MakeBuffer(name, self.sizes[name], "uniform" if name == UNIFORM else "storage")


class _Batch:
    """The contents of the three buffers, as cases are placed in them."""

    def __init__(self, align: int, align_uniform: int) -> None:
        self.align, self.align_uniform = align, align_uniform
        self.read, self.write, self.uniform = bytearray(), bytearray(), bytearray()
        self._shared: dict[tuple[int, str, int], Bound] = {}

    def place(self, planned: Planned, fill: int) -> tuple[list[_Region], dict[str, Bound]]:
        """Lays out one variant: the writable regions, and what to bind by variable."""
        regions, bound = [], {}
        for a in planned.launch.arguments:
            shared = (id(planned), a.variable, fill)
            if shared in self._shared:
                bound[a.variable] = self._shared[shared]
                continue
            if a.role == "uniform":
                offset = _append(self.uniform, contents(planned, a, fill)[0], self.align_uniform)
                bound[a.variable] = self._shared[shared] = Bound(a.group, a.binding, UNIFORM, offset, a.size)
                continue
            content, data = contents(planned, a, fill)
            size = len(content)
            writable = a.access != "read"
            offset = _append(self.write if writable else self.read, content, self.align)
            bound[a.variable] = Bound(a.group, a.binding, WRITE if writable else READ, offset, size)
            if writable:
                regions.append(_Region(a, offset, data, content))
            else:
                self._shared[shared] = bound[a.variable]
        return regions, bound

    def writes(self) -> Iterable[Command]:
        for name, content in ((READ, self.read), (WRITE, self.write), (UNIFORM, self.uniform)):
            if content:
                yield WriteBuffer(name, bytes(content))


def check_sizes(planned: Planned, limits: Mapping[str, int]) -> None:
    """Raises LimitError for a binding that the device cannot have, before memory is taken for what it would hold."""
    name = "max-storage-buffer-binding-size"
    most = limits.get(name, 1 << 27)
    for a in planned.launch.arguments:
        if a.size > most:
            raise LimitError(f"`{a.name}` would be bound with {a.size} bytes, and {most} are allowed", limit=name)


def contents(planned: Planned, a: BoundArgument, fill: int) -> tuple[bytes, int]:
    """What a binding holds beforehand, guard included, and how many of its bytes are data."""
    if a.role == "uniform":
        return planned.launch.uniforms[a.variable].ljust(a.size, b"\0"), a.size
    data = b""
    if a.role == "scalar":
        data = planned.launch.scalars[a.variable]
    elif a.role == "tensor" and a.name in planned.inputs:
        data = pack(planned.inputs[a.name], a.dtype, a.storage)
    size = a.size if a.exact else a.size + GUARD
    return data + (word_behind(a, fill).to_bytes(4, "little") * -(-size // 4))[len(data) : size], len(data)


def word_behind(a: BoundArgument, fill: int) -> int:
    """The word that stands behind the data of a binding."""
    if a.output:
        return fill
    index = a.dtype in ("i32", "u32") and a.storage == "plain" and fill == FILL["high"]
    return 0 if index else fill ^ BEHIND_INPUTS  # an index read behind the end must lead somewhere to show


def _append(buffer: bytearray, data: bytes, align: int) -> int:
    offset = -(-len(buffer) // align) * align
    buffer += bytes(offset - len(buffer)) + data + bytes(-len(data) % 4)
    return offset


def _read(regions: list[_Region], data: NDArray[np.uint8], fill: int) -> Ran:
    ran = Ran(fill=fill)
    for region in regions:
        a = region.argument
        found = data[region.offset : region.offset + len(region.content)]
        before = np.frombuffer(region.content, np.uint8)
        guard = slice(a.size, None)
        written = int((found[guard] != before[guard]).reshape(-1, 4).any(1).sum())
        if written:
            ran.overrun[a.name] = written
        if a.role != "tensor" or not a.output:
            if a.role != "scratch" and (changed := int((found[: region.data] != before[: region.data]).sum())):
                ran.changed[a.name] = changed
            continue
        ran.outputs[a.name] = unpack(found.tobytes(), a.dtype, a.storage, a.shape)
        logical = pack(ran.outputs[a.name], a.dtype, a.storage) if a.storage != "q4_32" else found.tobytes()
        ran.raw[a.name] = np.frombuffer(logical, np.uint8)
    return ran


_sessions: WeakKeyDictionary[Any, Session] = WeakKeyDictionary()


def session(runner: Runner) -> Session:
    """The session of a runner, made once."""
    if runner not in _sessions:
        _sessions[runner] = Session(runner)
    return _sessions[runner]
