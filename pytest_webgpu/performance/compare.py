"""Which of two kernels is faster: all on the device at once, in turn, in random order, judged by the paired rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_webgpu.gpu.job import Job, Runner, RunProgram, Variant
from pytest_webgpu.performance.prepare import Candidate, Prepared, measure, prepared
from pytest_webgpu.performance.stats import PAIRED_ROUNDS, Comparison, MeasurementError, compare

SAMPLES_A_ROUND = 3  # of which a round keeps the least
SAMPLE_SECONDS = 10e-3  # of the fastest, so that the wait hides no more than a few per cent of a difference
LONGEST_SAMPLE = 0.25  # of the slowest
BUDGET = 120.0
RACE_SECONDS = 6.0  # of all samples together, warm-up and compilation aside
BEHIND = 2.0  # times the fastest rival's time: those beyond are no rivals


@dataclass(frozen=True)
class Race:
    """`compared`: each rival with its comparison. `behind`: rivals that a first look found so many times slower than
    the fastest of them, and that were left out for it."""

    compared: list[tuple[Candidate, Comparison]]
    behind: list[tuple[Candidate, float]]


def compare_kernels(
    runner: Runner, mine: Candidate, others: Sequence[Candidate], *, rounds: int = PAIRED_ROUNDS, seed: int = 0
) -> Race:
    """The paired rule for `mine` against each of the others: above 1 is slower than that other. Takes some ten seconds
    unless single launches are too long for that.

    All are launched equally often a sample, so that the wait draws every ratio towards 1 and none away from it.
    Raises KernelError or Unfit for what does not fit its dims, MeasurementError when rounds were cut short, GpuError.
    """
    with prepared(runner, [mine, *others], seed) as made:
        rough = [_rough_seconds(runner, m) for m in made]
        fastest = min(rough[1:], default=0.0)
        raced = [i for i, seconds in enumerate(rough) if i == 0 or seconds <= BEHIND * fastest]
        launches = _launches([rough[i] for i in raced])
        samples = max(1, min(SAMPLES_A_ROUND, int(RACE_SECONDS / (rounds * launches * sum(rough[i] for i in raced)))))
        minima = round_minima(runner, [(made[i], launches) for i in raced], rounds, seed, samples)
    compared = [(others[i - 1], compare(other, minima[0])) for i, other in zip(raced[1:], minima[1:], strict=True)]
    behind = [(others[i - 1], rough[i] / fastest) for i in range(1, len(made)) if i not in raced]
    return Race(compared, behind)


def launches_a_sample(runner: Runner, made: Sequence[Prepared]) -> int:
    """How often each is to be launched so that a sample of the fastest lasts, and one of the slowest not too long."""
    return _launches([_rough_seconds(runner, m) for m in made])


def _launches(rough: Sequence[float]) -> int:
    return max(1, min(math.ceil(SAMPLE_SECONDS / min(rough)), int(LONGEST_SAMPLE / max(rough))))


def round_minima(
    runner: Runner, variants: Sequence[tuple[Prepared, int]], rounds: int, seed: int, samples: int = SAMPLES_A_ROUND
) -> list[list[float]]:
    """Seconds of each (prepared, launches) by round, each the least of its samples; interleaved in random order."""
    timed = [
        Variant(f"{index}", one.program, "one-pass", (launches * one.passes,), rounds=rounds * samples,
                budget_seconds=BUDGET)
        for index, (one, launches) in enumerate(variants)
    ]  # fmt: skip
    least = [[math.inf] * rounds for _ in variants]
    for index, turn, _, repeats, seconds in measure(runner, timed, seed):
        row = least[index]
        row[turn // samples] = min(row[turn // samples], seconds / repeats)
    measured = sum(math.isfinite(x) for x in least[0])
    if measured < rounds or any(math.inf in row for row in least):
        raise MeasurementError(f"only {measured} of {rounds} rounds were measured in {BUDGET} s")
    return least


def _rough_seconds(runner: Runner, made: Prepared) -> float:
    """What a launch takes, from the second of two runs."""
    times = 1
    while True:
        run = RunProgram(made.program, times, wait=True)
        value = runner.run(Job((run, run))).values[-1]
        assert value is not None
        if value["seconds"] > SAMPLE_SECONDS or times >= 64:
            return float(value["seconds"]) / (times * made.copies)
        times *= 4
