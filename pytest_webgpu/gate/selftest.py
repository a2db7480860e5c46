"""The gate against itself, on the machine at hand: how often it cries wolf, and what it finds.

A slowdown is real extra work: the slower variant launches the same kernel 5, 10 or 20 % more often and claims as
many launches as the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats as scipy_stats

from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.compare import launches_a_sample, round_minima
from pytest_webgpu.performance.prepare import Candidate, prepared
from pytest_webgpu.performance.stats import PAIRED_ROUNDS, Verdict, compare

SLOWDOWNS = (0.0, 0.05, 0.10, 0.20)
STEP = 20  # launches are a multiple of this, so that 5 % more is a whole number


@dataclass(frozen=True)
class Rate:
    """`hits` of `trials`, with the exact 95 % interval (Clopper and Pearson)."""

    hits: int
    trials: int

    @property
    def share(self) -> float:
        return self.hits / self.trials if self.trials else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        if not self.trials:
            return 0.0, 1.0
        interval = scipy_stats.binomtest(self.hits, self.trials).proportion_ci(method="exact")
        return float(interval.low), float(interval.high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.share:.0%} [{low:.0%}, {high:.0%}]"


@dataclass(frozen=True)
class Tested:
    """What the paired rule said of one slowdown (0: A against A). `noise`: spread of a round's log ratio at A/A."""

    key: str
    slowdown: float
    worse: Rate
    cannot_tell: Rate
    noise: float


def self_test(
    runner: Runner,
    candidate: Candidate,
    *,
    trials: int = 20,
    rounds: int = PAIRED_ROUNDS,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Tested]:
    """False alarms and power of the paired rule on a kernel's own time, each trial measured afresh.

    Raises as `performance.compare.compare_kernels`.
    """
    verdicts: dict[float, list[Verdict]] = {slowdown: [] for slowdown in SLOWDOWNS}
    spreads = []
    with prepared(runner, [candidate, candidate], seed) as (base, again):
        launches = -(-launches_a_sample(runner, [base]) // STEP) * STEP
        variants = [(base, launches), *((again, round(launches * (1 + s))) for s in SLOWDOWNS)]
        for trial in range(trials):
            progress(f"self-test of {candidate.key}: trial {trial + 1} of {trials}")
            old, *slower = round_minima(runner, variants, rounds, seed + trial)
            for slowdown, new in zip(SLOWDOWNS, slower, strict=True):
                verdicts[slowdown].append(compare(old, new).verdict)
            spreads.append(float(np.std(np.log(np.divide(slower[0], old)), ddof=1)))
    noise = float(np.median(spreads))
    return [
        Tested(candidate.key, slowdown, Rate(given.count(Verdict.WORSE), trials),
               Rate(given.count(Verdict.CANNOT_TELL), trials), noise)
        for slowdown, given in verdicts.items()
    ]  # fmt: skip


def told(results: list[Tested]) -> Iterator[str]:
    """The rates, a line each."""
    for one in results:
        what = "A against A, called worse" if not one.slowdown else f"{one.slowdown:.0%} slower, found"
        yield (f"{one.key}: {what} {one.worse}, cannot tell {one.cannot_tell}; noise of a round "
               f"{one.noise:.1%}")  # fmt: skip
