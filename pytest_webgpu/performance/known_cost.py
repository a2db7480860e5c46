"""Does b find a cost that was put there, and does a stay?

A busy wait is added to each dispatch, where the API is called, of one of two variants that are otherwise the same.
Both are timed interleaved, so what the machine does meanwhile falls on both; the line is fitted, within each round, to
what the delayed one takes more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_webgpu.gpu.job import Job, Measure, Mode, Runner, Variant
from pytest_webgpu.performance.stats import Estimate, MeasurementError, estimate, theil_sen

DELAY = 200e-6  # so long that a dispatch from colder caches, up to 4 us dearer, is below 3 % of it
NO_DELAY = 1e-9  # of the other variant, so that what it takes to hand out steps with a delay is in both
WITHIN = 0.05  # of the delay that b has to move by
# Where nothing runs before the last dispatch is encoded: elsewhere the device works while the host is kept busy.
COUNTS = (1, 2, 5, 10, 20, 50, 100)
SERIAL: tuple[Mode, ...] = ("one-pass", "pass-each")
Sample = tuple[int, int, int, int, float]  # variant, round, N, repeats, seconds for all repeats


@dataclass(frozen=True)
class Moved:
    """How far b and a moved, in seconds, by `put` more a dispatch, as the delay itself was timed: medians over rounds
    of lines through paired differences. `share`: of `put` that b moved by; 1 is all of it."""

    label: str
    put: Estimate
    b: Estimate
    a: Estimate
    share: Estimate

    @property
    def found(self) -> bool:
        """b moved by the delay within 5 %, and a by less than one delay, or by nothing within its interval."""
        still = self.a.low <= 0 <= self.a.high or abs(self.a.value) < self.put.value
        return abs(self.share.value - 1) <= WITHIN and still

    def __str__(self) -> str:
        b, a, put = self.b.scaled(1e6), self.a.scaled(1e6), self.put.scaled(1e6)
        return (f"{self.label}: {put.value:.1f} us more a dispatch moved b by {b.value:.1f} us [{b.low:.1f}, "
                f"{b.high:.1f}], {self.share.value:.1%} of it, "
                f"and a by {a.value:.0f} us [{a.low:.0f}, {a.high:.0f}]")  # fmt: skip


def measure_known_cost(runner: Runner, variants: Sequence[Variant], delay: float = DELAY, seed: int = 0) -> list[Moved]:
    """What `delay` seconds more a dispatch do to each of the variants, whose programs are on the runner.

    Takes about twice the variants' budgets. MeasurementError where fewer than two rounds have three N.
    """
    pairs = [dataclasses.replace(v, delay_seconds=d) for v in variants for d in (NO_DELAY, delay)]
    deadline = 2 * sum(v.budget_seconds for v in pairs) + 60
    value = runner.run(Job((Measure(tuple(pairs), seed, warm_up_seconds=0.5),)), deadline=deadline).values[0]
    assert value is not None
    samples = [(int(i), int(r), int(n), int(k), float(s)) for i, r, n, k, s in value["samples"]]
    return [moved(plain.label, samples, value["delays"], 2 * index) for index, plain in enumerate(variants)]


def moved(label: str, samples: Sequence[Sample], delays: Sequence[float], plain: int) -> Moved:
    """What variant `plain` + 1, delayed by so many seconds a sample, takes more than variant `plain`."""
    rounds = 1 + max(turn for _, turn, *_ in samples)
    counts = sorted({n for index, _, n, *_ in samples if index in (plain, plain + 1)})
    table = np.full((2, 2, rounds, len(counts)), np.nan)  # (whole time, delay) x (plain, delayed)
    for (index, turn, count, repeats, seconds), kept in zip(samples, delays, strict=True):
        if index in (plain, plain + 1):
            table[:, index - plain, turn, counts.index(count)] = seconds / repeats, kept / repeats
    more = table[:, 1] - table[:, 0]
    more = more[:, np.count_nonzero(np.isfinite(more[0]), axis=1) >= 3]
    if more.shape[1] < 2:
        raise MeasurementError(f"{label}: {more.shape[1]} of {rounds} rounds have three different N of both: "
                               "give it more time")  # fmt: skip
    (slopes, put_slopes), (intercepts, _) = theil_sen(np.asarray(counts, dtype=np.float64), more)
    return Moved(
        label, estimate(put_slopes.tolist()), estimate(slopes.tolist()), estimate(intercepts.tolist()),
        estimate((slopes / put_slopes).tolist()),
    )  # fmt: skip
