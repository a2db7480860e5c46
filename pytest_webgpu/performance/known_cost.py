"""Does b find a cost that was put there, and does a stay?

A busy wait is added to each dispatch, where the API is called, of one of two variants that are otherwise the same.
Both are timed interleaved. The lines that are compared go through the least times of many rounds of few dispatches: on
a busy machine those few are what nothing else disturbed. What the delay took in them is timed too.
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
COUNTS = (1, 2, 5, 10, 20)
ROUNDS = 60
SERIAL: tuple[Mode, ...] = ("one-pass", "pass-each")
Sample = tuple[int, int, int, int, float]  # variant, round, N, repeats, seconds for all repeats


@dataclass(frozen=True)
class Moved:
    """How far b and a moved, in seconds, by `put` more a dispatch, as the delay itself was timed: lines through the
    least times. `by_rounds`: of `put` that b moved by, 1 being all of it, from a line a round."""

    label: str
    put: float
    b: float
    a: float
    by_rounds: Estimate

    @property
    def share(self) -> float:
        """Of the delay that b found; 1 is all of it."""
        return self.b / self.put

    @property
    def found(self) -> bool:
        """b moved by the delay within 5 %, and a by less than one delay."""
        return abs(self.share - 1) <= WITHIN and abs(self.a) < self.put

    def __str__(self) -> str:
        each = self.by_rounds
        return (f"{self.label}: {1e6 * self.put:.1f} us more a dispatch moved b by {1e6 * self.b:.1f} us, "
                f"{self.share:.1%} of it (by rounds {each.value:.1%} [{each.low:.1%}, {each.high:.1%}]), and a by "
                f"{1e6 * self.a:.0f} us")  # fmt: skip


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
    table = table[:, :, np.count_nonzero(np.isfinite(more[0]), axis=1) >= 3]
    if table.shape[2] < 2:
        raise MeasurementError(f"{label}: {table.shape[2]} of {rounds} rounds have three different N of both: "
                               "give it more time")  # fmt: skip
    x = np.asarray(counts, dtype=np.float64)
    slopes, _ = theil_sen(x, table[:, 1] - table[:, 0])
    round_of = np.nanargmin(table[0], axis=1)[None, :, None]  # of the least time, by variant and N
    least = np.take_along_axis(table, round_of, axis=2)[:, :, 0]
    (b, put), (a, _) = theil_sen(x, least[:, 1] - least[:, 0])
    return Moved(label, float(put), float(b), float(a), estimate((slopes[0] / slopes[1]).tolist()))
