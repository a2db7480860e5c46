"""Timing loops, run where the API is called. They return every sample raw; judging them is another layer's."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle, islice, pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_webgpu.gpu.job import (
    Measure,
    MeasureCreation,
    MeasurePhases,
    MeasureTransfers,
    MeasureWaits,
    ValidationError,
    Variant,
)
from pytest_webgpu.gpu.program import Step

if TYPE_CHECKING:
    from pytest_webgpu.gpu.native import NativeRunner

CLOCK_STEPS = 100  # a sample lasts at least so many steps of the clock
ROUNDS_WANTED = 5  # the largest N are left out until so many rounds fit in a variant's budget
FEWEST_COUNTS = 3  # a line with an offset needs that many


class Delay:
    """Hands out steps, each only after the host was kept busy for `seconds`. `total`: how long it was kept in all,
    which is more where the system gave the processor to somebody else meanwhile."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.total = seconds, 0.0

    def __call__(self, steps: Iterable[Step]) -> Iterable[Step]:
        return self._kept(steps) if self.seconds else steps

    def _kept(self, steps: Iterable[Step]) -> Iterator[Step]:
        for step in steps:
            began = now = perf_counter()
            while now < began + self.seconds:
                now = perf_counter()
            self.total += now - began
            yield step


@dataclass
class Sampled:
    """A variant as it is being timed. `expected` seconds and `repeats` of a sample, by N."""

    variant: Variant
    delay: Delay
    issue: Callable[[int], None]
    expected: dict[int, float] = field(default_factory=dict)
    repeats: dict[int, int] = field(default_factory=dict)
    spent: float = 0.0
    cut: bool = False

    def round_seconds(self) -> float:
        return sum(self.expected.values())


def measure(runner: NativeRunner, command: Measure) -> dict[str, Any]:
    """Samples of every variant at every N, interleaved in random order within each round.

    Before: a warm-up, until three rounds agree within 5 %; then one call at each N, which says how often a sample
    repeats it. A round that does not fit in what is left of a variant's budget is not begun.
    """
    least = max(command.min_sample_seconds, CLOCK_STEPS * clock_step())
    sampled = [Sampled(v, d := Delay(v.delay_seconds), _issuer(runner, v, d)) for v in command.variants]
    order = random.Random(command.seed)
    samples: list[list[float]] = []
    delays: list[float] = []
    runner.settle()
    with undisturbed():
        warm_up_seconds = _warm_up(sampled, command.warm_up_seconds)
        for one in sampled:
            _calibrate(one, least)
        for turn in range(max((v.rounds for v in command.variants), default=0)):
            for one in sampled:
                one.cut = one.cut or (
                    turn < one.variant.rounds and one.spent + one.round_seconds() > one.variant.budget_seconds
                )
            running = [(i, s) for i, s in enumerate(sampled) if not s.cut and turn < s.variant.rounds]
            todo = [(i, s, n) for i, s in running for n in s.expected]
            order.shuffle(todo)
            for index, one, n in todo:
                one.delay.total = 0.0
                seconds = _time(one.issue, n, one.repeats[n])
                one.spent += seconds
                delays.append(one.delay.total)
                samples.append([index, turn, n, one.repeats[n], seconds])
    cut = [s.variant.label for s in sampled if s.cut or len(s.expected) < len(s.variant.counts)]
    value = {"samples": samples, "cut": cut, "warm_up_seconds": warm_up_seconds}
    return {**value, "delays": delays} if any(delays) else value


def _issuer(runner: NativeRunner, variant: Variant, delay: Delay) -> Callable[[int], None]:
    """A function that issues N dispatches in the variant's mode and waits for them."""
    program, mode = runner.program(variant.program), variant.mode
    if not program.steps:
        raise ValidationError(f"Program {variant.program!r} has no dispatch to time")
    steps = program.steps
    if variant.zero_workgroups:
        steps = tuple((pipeline, groups, 0, 1, 1) for pipeline, groups, *_ in steps)
    lists: dict[int, tuple[Step, ...]] = {}

    def ahead(n: int) -> None:
        if n not in lists:
            lists[n] = tuple(islice(cycle(steps), n))
        runner.issue(delay(lists[n]), n, mode)
        if mode != "wait-each":
            runner.wait()

    def fresh(n: int) -> None:
        makers = islice(cycle(zip(steps, program.fresh_groups, strict=True)), n)
        made = ((pipeline, make(), x, y, z) for (pipeline, _, x, y, z), make in makers)
        runner.issue(delay(made), n, mode)
        if mode != "wait-each":
            runner.wait()

    return fresh if variant.fresh_bind_groups else ahead


def _warm_up(sampled: list[Sampled], most: float) -> float:
    """Rounds of every variant at its middle N until three in a row agree within 5 %, or `most` seconds are over."""
    began = perf_counter()
    totals: list[float] = []
    while perf_counter() - began < most:
        total = 0.0
        for one in sampled:
            counts = sorted(one.variant.counts)
            total += _time(one.issue, counts[0] if not totals else counts[len(counts) // 2], 1)
            if perf_counter() - began >= most:
                return perf_counter() - began
        totals.append(total)
        last = totals[1:][-3:]  # the first round compiles
        if len(last) == 3 and max(last) <= 1.05 * min(last):
            break
    return perf_counter() - began


def _calibrate(one: Sampled, least: float) -> None:
    """Times one call at each N, smallest first, while that many rounds of them fit in the budget."""
    affordable = one.variant.budget_seconds / min(ROUNDS_WANTED, max(1, one.variant.rounds))
    last: tuple[int, float] | None = None
    for n in sorted(one.variant.counts):
        guess = last[1] * n / last[0] if last else 0.0
        if len(one.expected) >= FEWEST_COUNTS and one.round_seconds() + max(guess, least) > affordable:
            break
        seconds = _time(one.issue, n, 1)
        one.spent += seconds
        one.repeats[n] = max(1, math.ceil(least / seconds))
        one.expected[n] = seconds * one.repeats[n]
        last = (n, seconds)


def _time(issue: Callable[[int], None], n: int, repeats: int) -> float:
    began = perf_counter()
    for _ in range(repeats):
        issue(n)
    return perf_counter() - began


def clock_step() -> float:
    """The smallest step of the clock that shows in 1,000 readings, in seconds."""
    readings = [perf_counter() for _ in range(1000)]
    return min((b - a for a, b in pairwise(readings) if b > a), default=1e-6)


def measure_waits(runner: NativeRunner, command: MeasureWaits) -> dict[str, Any]:
    """Waits with nothing submitted, and reads of 4 bytes that nothing writes."""
    four = runner.buffers.make(4)
    runner.wait()
    runner.buffers.read(four, 0, 4)
    with undisturbed():
        waits = [_once(runner.wait) for _ in range(command.rounds)]
        reads = [_once(lambda: runner.buffers.read(four, 0, 4)) for _ in range(command.rounds)]
    runner.buffers.release(four)
    fence = runner.calls.fence
    return {"clock_step_seconds": clock_step(), "empty_wait_seconds": waits, "read_seconds": reads, "fence": fence}


def measure_phases(runner: NativeRunner, command: MeasurePhases) -> dict[str, Any]:
    """One dispatch (the program's first) phase by phase, in turn with the same dispatch timed whole."""
    steps = runner.program(command.program).steps[:1]
    if not steps:
        raise ValidationError(f"Program {command.program!r} has no dispatch to time")
    (pipeline, groups, x, y, z), calls = steps[0], runner.calls
    names = (
        "encoder", "pass-begin", "set-pipeline", "set-bind-group", "dispatch", "pass-end", "finish", "submit", "wait",
    )  # fmt: skip
    phases: dict[str, list[float]] = {name: [] for name in (*names, "whole")}
    runner.settle()
    with undisturbed():
        for _ in range(command.rounds + 1):  # the first compiles
            at = [perf_counter()]
            encoder = calls.encoder()
            at.append(perf_counter())
            compute_pass = calls.begin_pass(encoder)
            at.append(perf_counter())
            calls.set_pipeline(compute_pass, pipeline)
            at.append(perf_counter())
            for arguments in groups:
                calls.set_bind_group(compute_pass, *arguments)
            at.append(perf_counter())
            calls.dispatch(compute_pass, x, y, z)
            at.append(perf_counter())
            calls.end_pass(compute_pass)
            at.append(perf_counter())
            commands = calls.finish(encoder)
            at.append(perf_counter())
            calls.submit(commands)
            at.append(perf_counter())
            runner.wait()
            at.append(perf_counter())
            for name, start, end in zip(names, at, at[1:], strict=False):
                phases[name].append(end - start)
            began = perf_counter()
            runner.issue(steps, 1, "one-pass")
            runner.wait()
            phases["whole"].append(perf_counter() - began)
    issued = command.rounds + 1
    for name in ("dispatches", "passes", "submits"):
        runner.counts[name] += issued
    return {"phases": {name: seconds[1:] for name, seconds in phases.items()}}


def measure_creation(runner: NativeRunner, command: MeasureCreation) -> dict[str, Any]:
    """Buffers, bind groups and pipelines made anew. What a driver keeps of shaders by itself is not ruled out."""
    program = runner.program(command.program)
    if not program.pipelines or not program.steps[0][1]:
        raise ValidationError(f"Program {command.program!r} has no dispatch with a bind group to time")
    groups = len(program.steps[0][1])
    stamp = count(random.getrandbits(32))
    with undisturbed():
        buffers = [runner.buffers.time_creation(command.buffer_size) for _ in range(command.rounds)]
        bind_groups = [_once(program.fresh_groups[0]) / groups for _ in range(command.rounds)]
        pipelines = [
            _once(lambda: program.pipelines[0].remake(f"\n// {next(stamp)}")) for _ in range(command.pipelines)
        ]
    runner.counts["pipelines"] += command.pipelines
    return {"seconds": {"buffer": buffers, "bind-group": bind_groups, "pipeline": pipelines}}


def measure_transfers(runner: NativeRunner, command: MeasureTransfers) -> dict[str, Any]:
    """Writes of each size, with a wait after each, and reads."""
    writes, reads = [], []
    for size in command.sizes:
        buffer, data = runner.buffers.make(size), bytearray(size)

        def write(buffer: Any = buffer, data: bytearray = data) -> None:
            runner.buffers.write(buffer, data)
            runner.buffers.flush()

        def read(buffer: Any = buffer, size: int = size) -> None:
            runner.buffers.read(buffer, 0, size)

        with undisturbed():
            writes.append(_within(write, command.rounds, command.budget_seconds / 2))
            reads.append(_within(read, command.rounds, command.budget_seconds / 2))
        runner.buffers.release(buffer)
    return {"write_seconds": writes, "read_seconds": reads}


def _within(call: Callable[[], None], rounds: int, budget: float) -> list[float]:
    """Seconds of each call, after one that is not kept; at least two, then as many as the budget takes."""
    call()
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < rounds and sum(seconds) < budget):
        seconds.append(_once(call))
    return seconds


def _once(call: Callable[[], Any]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without Python's garbage collector, whose pauses would fall on some samples."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
