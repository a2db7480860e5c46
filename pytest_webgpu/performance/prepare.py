"""Puts kernels on a device so that they can be timed: buffers with data, and a program of one launch after another.

Tensors that are read and large lie there several times and take turns, beyond the last-level cache, as a model's
weights do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from pytest_webgpu.conformance.packing import pack
from pytest_webgpu.gpu.job import (
    Bound,
    Command,
    CopyBuffer,
    Dispatch,
    Drop,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    Measure,
    Runner,
    RunProgram,
    Variant,
    WriteBuffer,
)
from pytest_webgpu.kernels.expression import parse
from pytest_webgpu.ops.contract import Below, Contract
from pytest_webgpu.ops.launch import BoundArgument, Launch, launch

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource

PREFIX = "performance.kernel."
LAST_LEVEL, SOFTWARE_LAST_LEVEL = 128 << 20, 64 << 20  # bytes beyond which no cache holds what takes turns
LARGE = 1 << 20  # bytes from which a tensor that is read takes turns
MOST_COPIES = 128
BLOCK = 1 << 18  # elements drawn at random; larger tensors repeat them
Sample = tuple[int, int, int, int, float]  # variant, round, N, repeats, seconds for all repeats


@dataclass(frozen=True)
class Candidate:
    """A kernel at dims. Scalars left out take the contract's defaults, tunables their first value."""

    op: Contract
    kernel: KernelSource
    dims: Mapping[str, int]
    scalars: Mapping[str, float] = field(default_factory=dict)
    tune: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What a baseline is stored under: "linear.gemv[f32] rows=1,k=896,n=4864"."""
        numbers = {**self.dims, **self.scalars, **self.tune}
        return f"{self.kernel.name} " + ",".join(f"{name}={value:g}" for name, value in numbers.items())


@dataclass(frozen=True)
class Prepared:
    program: str
    launch: Launch
    copies: int

    @property
    def passes(self) -> int:
        return len(self.launch.passes)


@contextmanager
def prepared(runner: Runner, candidates: Sequence[Candidate], seed: int) -> Iterator[list[Prepared]]:
    """The candidates on the device, run once, in their order; everything is dropped at the end.

    Raises KernelError or Unfit for a kernel that does not fit its dims, and GpuError as the runner does.
    """
    try:
        yield [_prepare(runner, candidate, index, seed) for index, candidate in enumerate(candidates)]
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))


def measure(runner: Runner, variants: Sequence[Variant], seed: int, warm_up: float = 1.0) -> list[Sample]:
    deadline = 2 * sum(v.budget_seconds for v in variants) + 60
    value = runner.run(Job((Measure(tuple(variants), seed, warm_up_seconds=warm_up),)), deadline=deadline).values[0]
    assert value is not None
    return [(int(i), int(r), int(n), int(k), float(s)) for i, r, n, k, s in value["samples"]]


def _prepare(runner: Runner, candidate: Candidate, index: int, seed: int) -> Prepared:
    """Everything on the device: buffers with their data, and a program of one launch a copy."""
    one = launch(candidate.op, candidate.kernel, candidate.dims, candidate.scalars, candidate.tune)
    large = [a for a in one.arguments if a.role == "tensor" and a.access == "read" and a.size >= LARGE]
    beyond = SOFTWARE_LAST_LEVEL if runner.info.software else LAST_LEVEL
    copies = min(MOST_COPIES, math.ceil(beyond / sum(a.size for a in large))) if large else 1
    prefix, rng = f"{PREFIX}{index}.", np.random.default_rng(seed)
    commands: list[Command] = []
    for argument in one.arguments:
        name, data = f"{prefix}{argument.variable}.", _data(candidate, one, argument, rng)
        usage: Literal["uniform", "storage"] = "uniform" if argument.role == "uniform" else "storage"
        for copy in range(copies if argument in large else 1):
            commands.append(MakeBuffer(f"{name}{copy}", argument.size, usage))
            if data is not None:
                first = WriteBuffer(f"{name}0", data)
                commands.append(first if not copy else CopyBuffer(f"{name}0", f"{name}{copy}", argument.size))
    dispatches = []
    for entry in dict.fromkeys(p.entry for p in one.passes):
        kernel, constants = candidate.kernel, next(p.constants for p in one.passes if p.entry == entry)
        commands.append(MakePipeline(f"{prefix}{entry}", kernel.code, entry, one.slots(entry), constants,
                                     tuple(sorted(kernel.features)), one.workgroup_memory))  # fmt: skip
    for copy in range(copies):
        for single in one.passes:
            bound = tuple(
                Bound(a.group, a.binding, f"{prefix}{a.variable}.{copy if a in large else 0}")
                for a in one.bound(single.entry)
            )
            dispatches.append(Dispatch(f"{prefix}{single.entry}", bound, single.workgroups, candidate.kernel.name))
    commands.append(MakeProgram(f"{prefix}program", tuple(dispatches)))
    commands.append(RunProgram(f"{prefix}program", wait=True))  # compiles: drivers put that off to the first dispatch
    runner.run(Job(tuple(commands)), deadline=300)
    return Prepared(f"{prefix}program", one, copies)


def _data(candidate: Candidate, one: Launch, argument: BoundArgument, rng: np.random.Generator) -> bytes | None:
    """What a binding holds: small normal numbers, or integers as the contract draws them; None for what is written."""
    if argument.role == "uniform":
        return one.uniforms[argument.variable].ljust(argument.size, b"\0")
    if argument.role == "scalar":
        return one.scalars[argument.variable].ljust(argument.size, b"\0")
    if argument.role == "scratch" or (argument.output and argument.name not in {a.name for a in candidate.op.args}):
        return None
    shape = (min(math.prod(argument.shape), BLOCK),)
    drawn = candidate.op.draw.get(argument.name)
    if candidate.op.tensor(argument.name).kind == "float":
        values = 0.05 * rng.standard_normal(shape)
    else:
        limit = parse(drawn.limit).evaluate(one.names) if isinstance(drawn, Below) else 1
        values = rng.integers(0, max(1, int(limit)), shape).astype(np.float64)
    block = pack(values, argument.dtype, argument.storage)
    return (block * math.ceil(argument.size / max(1, len(block))))[: argument.size]
