"""How long kernels take at given dims, what share of the adapter's ceiling that is, and which of two is faster.

A kernel's time is the slope of T over repeated launches in one pass, so neither the wait nor the submit is in it.
Tensors that are read and large lie there several times and take turns, beyond the last-level cache, as a model's
weights do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
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
from pytest_webgpu.performance.roofline import Roofline
from pytest_webgpu.performance.stats import PAIRED_ROUNDS, Comparison, Estimate, MeasurementError, compare, fit
from pytest_webgpu.performance.work import Work, work

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource

PREFIX = "performance.kernel."
LAST_LEVEL, SOFTWARE_LAST_LEVEL = 128 << 20, 64 << 20  # bytes beyond which no cache holds what takes turns
LARGE = 1 << 20  # bytes from which a tensor that is read takes turns
MOST_COPIES = 128
LAUNCHES = (1, 2, 5, 10, 20, 50, 100, 200)
BLOCK = 1 << 18  # elements drawn at random; larger tensors repeat them
SAMPLES_A_ROUND = 3  # of which a paired round keeps the least
SAMPLE_SECONDS = 5e-3
MOST_LAUNCHES = 1000
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
class KernelTime:
    """Seconds a launch. `copies`: how many of its large tensors took turns. `share` of `limit`, where a roofline was
    given."""

    candidate: Candidate
    time: Estimate
    work: Work
    copies: int
    share: Estimate | None = None
    limit: str = ""

    @property
    def bytes_per_second(self) -> float:
        return self.work.bytes / self.time.value

    @property
    def flops_per_second(self) -> float:
        return self.work.flops / self.time.value


@dataclass(frozen=True)
class Times:
    """By candidate's key; `not_measured` says why for those that gave no figure."""

    measured: Mapping[str, KernelTime]
    not_measured: Mapping[str, str]


@dataclass(frozen=True)
class _Made:
    program: str
    launch: Launch
    copies: int

    @property
    def passes(self) -> int:
        return len(self.launch.passes)


def time_kernels(
    runner: Runner,
    candidates: Sequence[Candidate],
    *,
    roofline: Roofline | None = None,
    rounds: int = 20,
    budget: float = 2.0,
    seed: int = 0,
) -> Times:
    """Times the candidates, interleaved in random order; at most `budget` seconds each.

    Raises KernelError or Unfit for a kernel that does not fit its dims, and GpuError as the runner does.
    """
    measured: dict[str, KernelTime] = {}
    not_measured: dict[str, str] = {}
    try:
        made = [_make(runner, candidate, index, seed) for index, candidate in enumerate(candidates)]
        variants = [
            Variant(c.key, m.program, "one-pass", tuple(n * m.passes for n in LAUNCHES), rounds=rounds,
                    budget_seconds=budget)
            for c, m in zip(candidates, made, strict=True)
        ]  # fmt: skip
        samples = _measure(runner, variants, seed)
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))
    for index, (candidate, one) in enumerate(zip(candidates, made, strict=True)):
        try:
            time = fit((r, n, k, s) for i, r, n, k, s in samples if i == index).b.scaled(one.passes)
            if time.low <= 0:
                raise MeasurementError(f"between {time.low:.3g} and {time.high:.3g} s a launch: lost in the noise")
        except MeasurementError as error:
            not_measured[candidate.key] = str(error)
            continue
        does = work(candidate.op, one.launch)
        known = KernelTime(candidate, time, does, one.copies)
        if roofline is not None:
            known = dataclasses.replace(known, share=roofline.share(does, time), limit=roofline.limited_by(does))
        measured[candidate.key] = known
    return Times(measured, not_measured)


def compare_kernels(
    runner: Runner, mine: Candidate, others: Sequence[Candidate], *, rounds: int = PAIRED_ROUNDS, seed: int = 0
) -> list[Comparison]:
    """The paired rule for `mine` against each of the others: above 1 is slower than that other.

    All run in turn, in random order; a round's value is its least sample. Each sample is long enough that the wait is
    no part of the ratio. Raises as `time_kernels`, and MeasurementError when the rounds were cut short.
    """
    candidates = [mine, *others]
    try:
        made = [_make(runner, candidate, index, seed) for index, candidate in enumerate(candidates)]
        rough = [_rough_seconds(runner, m) for m in made]
        variants = []
        for candidate, one, seconds in zip(candidates, made, rough, strict=True):
            launches = max(1, min(MOST_LAUNCHES, math.ceil(SAMPLE_SECONDS / seconds)))
            variants.append(Variant(candidate.key, one.program, "one-pass", (launches * one.passes,),
                                    rounds=rounds * SAMPLES_A_ROUND, budget_seconds=60.0))  # fmt: skip
        samples = _measure(runner, variants, seed)
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))
    values = [_round_minima(samples, index, v.counts[0], rounds) for index, v in enumerate(variants)]
    per_launch = [[x * m.passes for x in one] for one, m in zip(values, made, strict=True)]
    return [compare(other, per_launch[0]) for other in per_launch[1:]]


def _measure(runner: Runner, variants: Sequence[Variant], seed: int) -> list[Sample]:
    deadline = 2 * sum(v.budget_seconds for v in variants) + 60
    value = runner.run(Job((Measure(tuple(variants), seed, warm_up_seconds=1.0),)), deadline=deadline).values[0]
    assert value is not None
    return [(int(i), int(r), int(n), int(k), float(s)) for i, r, n, k, s in value["samples"]]


def _round_minima(
    samples: Sequence[tuple[int, int, int, int, float]], index: int, count: int, rounds: int
) -> list[float]:
    """The least seconds a dispatch of each round."""
    least = [math.inf] * rounds
    for i, turn, n, repeats, seconds in samples:
        if i == index and n == count:
            least[turn // SAMPLES_A_ROUND] = min(least[turn // SAMPLES_A_ROUND], seconds / repeats / n)
    if math.inf in least:
        raise MeasurementError(f"only {least.index(math.inf)} of {rounds} rounds were measured: give it more time")
    return least


def _rough_seconds(runner: Runner, made: _Made) -> float:
    """What a launch takes, from two runs of the whole program after one that compiles."""
    times = 1
    while True:
        run = RunProgram(made.program, times, wait=True)
        value = runner.run(Job((run, run))).values[-1]
        assert value is not None
        if value["seconds"] > SAMPLE_SECONDS or times >= 64:
            return float(value["seconds"]) / (times * made.copies)
        times *= 4


def _make(runner: Runner, candidate: Candidate, index: int, seed: int) -> _Made:
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
    return _Made(f"{prefix}program", one, copies)


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
