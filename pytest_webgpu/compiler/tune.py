"""Which kernel, with which values of its tunables, is the fastest for an op's shape on the device at hand."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_webgpu.gpu.job import (
    Bound,
    Dispatch,
    Drop,
    FillBuffer,
    GpuError,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    MeasureDeviceTime,
    Runner,
    WriteBuffer,
)
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.ops.contract import Contract
from pytest_webgpu.ops.launch import Launch, Unfit, launch

ROTATED = 256 << 20  # bytes of one large input's copies taken in turn: more than a last-level cache holds
LARGE = 64 << 10  # an input from this size on is rotated: in a model it comes from memory, a small one from the cache
MOST_COPIES = 24
LAUNCHES, ENOUGH = 48, 1e-3  # between two timestamps: so many, or so many seconds, that a pass's beginning is little
FEW = 4  # launches for a first look
SWEEPS, ROUNDS = 4, 2
TOGETHER = 256  # pipelines compiled at a time: a device keeps more than these
WORTH = 2.0  # who needs more than this many times the best one's time is not looked at again
PREFIX = "tune."
DEADLINE = 600.0


@dataclass(frozen=True)
class Candidate:
    """A kernel with a value for each of its tunables."""

    kernel: KernelSource
    tune: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.kernel.name} " + " ".join(f"{k}={v}" for k, v in self.tune.items())


@dataclass(frozen=True)
class Timed:
    """Seconds that one launch takes on the device, among others like it in one pass."""

    candidate: Candidate
    seconds: float


def usual(kernel: KernelSource) -> dict[str, int]:
    """The tunables' values where nothing was tuned: the first of each."""
    return {name: values[0] for name, values in kernel.header.tune.items()}


def candidates(kernels: Iterable[KernelSource], features: Iterable[str]) -> list[Candidate]:
    """Every combination of tunables of every kernel that the device's features allow."""
    have = set(features)
    return [
        Candidate(kernel, dict(zip(kernel.header.tune, values, strict=True)))
        for kernel in kernels
        if kernel.features <= have
        for values in itertools.product(*kernel.header.tune.values())
    ]


@dataclass(frozen=True)
class Question:
    """Which of these kernels is the fastest for the op at these dims? Scalars on the device have the value given."""

    op: Contract
    kernels: tuple[KernelSource, ...]
    dims: Mapping[str, int]
    scalars: Mapping[str, float]


def fastest(runner: Runner, questions: Sequence[Question]) -> list[list[Timed]]:
    """For each question the candidates that fit, the fastest first: each kernel as its header has it first, in few
    launches; then every combination of tunables of those kernels that came within WORTH of the best.

    What all questions need is compiled together, which takes a fraction of the time where there are many cores.
    """
    features = set(runner.info.features)
    defaults = [[Candidate(k, usual(k)) for k in q.kernels if k.features <= features] for q in questions]
    first = _time_each(runner, questions, defaults, [FEW] * len(questions), most_copies=1)
    worth = [[t.candidate.kernel for t in timed if t.seconds <= WORTH * timed[0].seconds] for timed in first]
    launches = [max(FEW, min(LAUNCHES, math.ceil(ENOUGH / timed[0].seconds))) if timed else FEW for timed in first]
    return _time_each(runner, questions, [candidates(kernels, features) for kernels in worth], launches)


def _time_each(
    runner: Runner, questions: Sequence[Question], tried: Sequence[Sequence[Candidate]], launches: Sequence[int],
    most_copies: int = MOST_COPIES,
) -> list[list[Timed]]:  # fmt: skip
    """`time_candidates` for each question, the pipelines of some questions compiled ahead at a time."""
    found: list[list[Timed]] = []
    asked = [*zip(questions, tried, launches, strict=True)]
    while len(found) < len(asked):
        some, pipelines = 0, list[MakePipeline]()
        for q, these, _ in asked[len(found) :]:
            fit = [one for _, one in _fitting(q.op, these, q.dims, q.scalars)]
            more = [p for i, one in enumerate(fit) for p in _pipelines(one, f"{PREFIX}ahead{some}.{i}")]
            if pipelines and len(pipelines) + len(more) > TOGETHER:
                break
            some, pipelines = some + 1, pipelines + more
        with contextlib.suppress(GpuError):  # a refused one shows again, by itself, when it is to be timed
            runner.run(Job(tuple(pipelines)), DEADLINE)
        for q, these, often in asked[len(found) : len(found) + some]:
            found.append(time_candidates(runner, q.op, these, q.dims, q.scalars, often, most_copies))
    return found


def _fitting(
    op: Contract, tried: Iterable[Candidate], dims: Mapping[str, int], scalars: Mapping[str, float]
) -> list[tuple[Candidate, Launch]]:
    found = []
    for candidate in tried:
        with contextlib.suppress(Unfit):
            found.append((candidate, launch(op, candidate.kernel, dims, scalars, candidate.tune)))
    return found


def time_candidates(
    runner: Runner,
    op: Contract,
    tried: Sequence[Candidate],
    dims: Mapping[str, int],
    scalars: Mapping[str, float],
    launches: int = LAUNCHES,
    most_copies: int = MOST_COPIES,
) -> list[Timed]:
    """The candidates that fit `dims`, the fastest first. Scalars on the device (`start`) have the value given.

    By the device's own timestamps, so that the host's encoding counts for nothing: MissingFeature where it has none.
    The shortest of up to SWEEPS over the candidates, since a device that was idle begins at a low clock; who is WORTH
    times behind after one is left out of the next. Inputs of LARGE bytes and more are rotated through copies, so that
    they come from memory as a model's weights do. A candidate that does not fit, or that the device refuses, is left
    out altogether.
    """
    launched = _fitting(op, tried, dims, scalars)
    made: list[tuple[Candidate, int, str]] = []
    buffers: set[str] = set()
    try:
        for i, (candidate, one) in enumerate(launched):
            program = f"{PREFIX}program{i}"
            with contextlib.suppress(GpuError):
                made.append((candidate, _make(runner, one, program, i, buffers, most_copies), program))
        seconds = [math.inf] * len(made)
        for _ in range(SWEEPS):
            close = [i for i, best in enumerate(seconds) if best <= WORTH * min(seconds)]
            sweep = [MeasureDeviceTime(made[i][2], ROUNDS, max(1, launches // made[i][1])) for i in close]
            for i, value in zip(close, runner.run(Job(tuple(sweep)), DEADLINE).values, strict=True):
                once = min(one for (one,) in (value or {})["seconds"]) / made[i][1]
                seconds[i] = min(seconds[i], once)
    finally:
        runner.run(Job((Drop((PREFIX + "*",)),)))
    timed = [Timed(candidate, best) for (candidate, _, _), best in zip(made, seconds, strict=True)]
    return sorted(timed, key=lambda t: t.seconds)


def _make(
    runner: Runner, launched: Launch, program: str, number: int, buffers: set[str], most_copies: int
) -> int:
    """Buffers and a program that launches once for each copy of the large inputs. Returns how many copies."""
    large = [a for a in launched.arguments if a.role == "tensor" and not a.output and a.size >= LARGE]
    copies = max(1, min(most_copies, ROTATED // max((a.size for a in large), default=ROTATED)))
    names: dict[tuple[str, int], str] = {}
    commands: list[MakeBuffer | FillBuffer | WriteBuffer] = []
    for a in launched.arguments:
        for copy in range(copies if a in large else 1):
            # Buffers are shared between candidates by what they hold, so that the largest stands once for all.
            name = f"{PREFIX}{a.name}.{a.size}.{copy}" if a.role == "tensor" else f"{PREFIX}{number}.{a.variable}"
            names[a.variable, copy] = name
            if name in buffers:
                continue
            buffers.add(name)
            commands.append(MakeBuffer(name, a.size, "uniform" if a.role == "uniform" else "storage"))
            data = launched.uniforms.get(a.variable) or launched.scalars.get(a.variable)
            commands.append(WriteBuffer(name, data) if data else FillBuffer(name, 0))
    pipelines = _pipelines(launched, program)
    dispatches = tuple(
        Dispatch(
            pipelines[index].name,
            tuple(Bound(a.group, a.binding, names.get((a.variable, copy), names[a.variable, 0]), 0, a.size)
                  for a in launched.bound(one.entry)),
            one.workgroups,
        )
        for copy in range(copies)
        for index, one in enumerate(launched.passes)
    )  # fmt: skip
    runner.run(Job((*commands, *pipelines, MakeProgram(program, dispatches))), DEADLINE)
    return copies


def _pipelines(launched: Launch, program: str) -> list[MakePipeline]:
    return [
        MakePipeline(f"{program}.{index}", launched.kernel.code, one.entry, launched.slots(one.entry), one.constants,
                     tuple(sorted(launched.kernel.features)), launched.workgroup_memory)
        for index, one in enumerate(launched.passes)
    ]  # fmt: skip
