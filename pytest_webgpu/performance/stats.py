"""From samples of T(N) to a cost with an interval, and from paired rounds to a verdict.

The time of N dispatches is T(N) = a + b N: b is what a dispatch costs, a what waiting costs. Within a round the
line is Theil and Sen's (the median of the slopes of all pairs), so one bad sample moves nothing; the figure is the
median over rounds, and its interval a bootstrap over rounds, since a round is the unit that is independent.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95
RESAMPLES = 2000
DISTURBED = 0.1  # CV of the rounds' b from which on something else takes the machine's time
PAIRED_ROUNDS = 24
PAIRED_LEVEL = 0.01
PAIRED_LIMIT = 1.03


class MeasurementError(ValueError):
    """Samples from which no figure can be had: too few, not finite, or from a clock that went backwards."""


class Verdict(enum.Enum):
    """What is known about a change. Only WORSE is a regression; NO_BASELINE and CANNOT_TELL are never a pass."""

    WORSE = "worse"
    NOT_WORSE = "not worse"
    CANNOT_TELL = "cannot tell"
    NO_BASELINE = "no baseline"


@dataclass(frozen=True)
class Estimate:
    """A median over rounds and its 95 % bootstrap interval, in the unit of `per_round`."""

    value: float
    low: float
    high: float
    per_round: tuple[float, ...] = field(repr=False, default=())

    @property
    def cv(self) -> float:
        """Standard deviation over mean of the rounds (0 with fewer than two rounds)."""
        if len(self.per_round) < 2 or not (mean := float(np.mean(self.per_round))):
            return 0.0
        return float(np.std(self.per_round, ddof=1)) / abs(mean)

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit; `factor` > 0."""
        rounds = tuple(x * factor for x in self.per_round)
        return Estimate(self.value * factor, self.low * factor, self.high * factor, rounds)


@dataclass(frozen=True)
class Fit:
    """T(N) = a + b N in seconds. The floors are the line through the minima over rounds, without an interval."""

    b: Estimate
    a: Estimate
    b_floor: float
    a_floor: float
    counts: tuple[int, ...]
    medians: tuple[float, ...]

    def measured(self, count: int) -> float:
        """The median of T(count), in seconds. Raises KeyError when that N was not measured."""
        try:
            return self.medians[self.counts.index(count)]
        except ValueError:
            raise KeyError(f"T({count}) was not measured; measured: {self.counts}") from None


def theil_sen(counts: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Slopes and intercepts of lines through `times` (..., len(counts)); missing samples are NaN.

    The intercept is the median of times - slope x counts, so that half of the samples lie on either side.
    """
    first, second = np.triu_indices(len(counts), 1)
    slopes = (times[..., second] - times[..., first]) / (counts[second] - counts[first])
    slope = np.nanmedian(slopes, axis=-1)
    return slope, np.nanmedian(times - slope[..., None] * counts, axis=-1)


def bootstrap_median(values: Floats, seed: int = 0) -> tuple[Floats, Floats]:
    """The 95 % interval of the median along the last axis (rounds), by the expanded percentile bootstrap.

    Percentiles of few rounds are too narrow; they are widened as t is against the normal (Hesterberg 2015,
    "What Teachers Should Know About the Bootstrap", section 5.2).
    """
    rounds = values.shape[-1]
    if rounds < 2:
        return values[..., 0], values[..., 0]
    t = special.stdtrit(rounds - 1, (1 + CONFIDENCE) / 2)  # Student's t, without scipy.stats' two seconds
    tail = special.ndtr(-math.sqrt(rounds / (rounds - 1)) * t)
    medians = np.sort(values, axis=-1)[..., _resampled_middles(rounds, seed)].mean(axis=-1)
    low, high = np.quantile(medians, [tail, 1 - tail], axis=-1)
    return low, high


@functools.lru_cache(maxsize=32)
def _resampled_middles(rounds: int, seed: int) -> npt.NDArray[np.int64]:
    """(RESAMPLES, 2): which two order statistics of the rounds are the middle of each resample."""
    resampled = np.sort(np.random.default_rng(seed).integers(0, rounds, (RESAMPLES, rounds)), axis=-1)
    return resampled[:, [(rounds - 1) // 2, rounds // 2]]


def estimate(per_round: Sequence[float]) -> Estimate:
    """The median of one figure a round. Raises MeasurementError for none, and for what is not finite."""
    values = np.asarray(per_round, dtype=np.float64)
    if not values.size:
        raise MeasurementError("nothing was measured: no rounds")
    if not np.isfinite(values).all():
        raise MeasurementError(f"round {int(np.argmin(np.isfinite(values)))} gave no finite figure")
    low, high = bootstrap_median(values)
    return Estimate(float(np.median(values)), float(low), float(high), tuple(values.tolist()))


def fit(samples: Iterable[tuple[int, int, int, float]]) -> Fit:
    """The line through samples (round, N, repeats, seconds for all repeats).

    Where the rounds' b vary by more than 10 %, other work takes time from some of them and gives none back: rounds near
    to each other share it, a bootstrap does not see that, and the interval is drawn down to the floor.

    A round counts when it has at least three different N. Raises MeasurementError for a time that is negative or
    not finite, and when fewer than two rounds count.
    """
    times: dict[int, dict[int, list[float]]] = {}
    for index, (round_, count, repeats, seconds) in enumerate(samples):
        if not (math.isfinite(seconds) and seconds >= 0 and repeats > 0):
            raise MeasurementError(f"sample {index} (N = {count}) took {seconds} s: the clock went backwards")
        times.setdefault(round_, {}).setdefault(count, []).append(seconds / repeats)
    whole = [by_count for _, by_count in sorted(times.items()) if len(by_count) >= 3]
    if len(whole) < 2:
        raise MeasurementError(f"{len(whole)} of {len(times)} rounds have three different N, and a line with an "
                               "interval needs two: give it more time")  # fmt: skip
    counts = sorted({n for by_count in whole for n in by_count})
    table = np.full((len(whole), len(counts)), np.nan)
    for row, by_count in enumerate(whole):
        for count, values in by_count.items():
            table[row, counts.index(count)] = np.mean(values)
    x = np.asarray(counts, dtype=np.float64)
    slopes, intercepts = theil_sen(x, table)
    b_floor, a_floor = theil_sen(x, np.nanmin(table, axis=0))
    medians = tuple(np.nanmedian(table, axis=0).tolist())
    b = estimate(slopes.tolist())
    if b.cv > DISTURBED:
        b = dataclasses.replace(b, low=min(b.low, float(b_floor)))
    return Fit(b, estimate(intercepts.tolist()), float(b_floor), float(a_floor), tuple(counts), medians)


def cost(samples: Iterable[tuple[int, int, int, float]]) -> Fit:
    """The same for what takes time: MeasurementError also when a round's slope is not positive."""
    line = fit(samples)
    lost = sum(b <= 0 for b in line.b.per_round)
    if lost:
        raise MeasurementError(f"{lost} of {len(line.b.per_round)} rounds have no positive slope: lost in the noise")
    return line


@dataclass(frozen=True)
class Comparison:
    """New against old over paired rounds. `ratio` is new / old (above 1 is slower), with its 95 % interval."""

    verdict: Verdict
    ratio: float
    low: float
    high: float
    p_slower: float
    p_within: float
    p_faster: float
    rounds: int

    @property
    def faster(self) -> bool:
        """The same rule the other way round."""
        return self.p_faster < PAIRED_LEVEL and self.ratio < 1 / PAIRED_LIMIT


def compare(old: Sequence[float], new: Sequence[float], limit: float = PAIRED_LIMIT) -> Comparison:
    """The paired rule. `old[i]` and `new[i]` are the times of round i, each its minimum; any one unit.

    WORSE: Wilcoxon's signed-rank test on the log ratios says slower (one-sided p < 0.01) and the median is over
    `limit`. NOT_WORSE: the same test says that the ratio is below `limit` (p < 0.01). Else CANNOT_TELL: the noise
    of this machine hides a change of that size. Raises MeasurementError for unpaired rounds and what is no time.
    """
    if len(old) != len(new):
        raise MeasurementError(f"{len(old)} rounds of the old and {len(new)} of the new are no pairs")
    pair = np.asarray([old, new], dtype=np.float64)
    if not (np.isfinite(pair).all() and (pair > 0).all()):
        raise MeasurementError("a round's time is zero, negative or not finite: the clock is too coarse or went back")
    if not pair.size:
        raise MeasurementError("nothing was measured: no rounds")
    logs = np.log(pair[1] / pair[0])
    ratio = float(np.exp(np.median(logs)))
    low, high = (float(np.exp(x)) for x in bootstrap_median(logs))
    slower, within = signed_rank(logs, "greater"), signed_rank(logs - math.log(limit), "less")
    if slower < PAIRED_LEVEL and ratio > limit:
        verdict = Verdict.WORSE
    else:
        verdict = Verdict.NOT_WORSE if within < PAIRED_LEVEL else Verdict.CANNOT_TELL
    return Comparison(verdict, ratio, low, high, slower, within, signed_rank(logs, "less"), len(logs))


def signed_rank(values: Floats, alternative: str) -> float:
    """One-sided p of Wilcoxon's signed-rank test that the median is not 0; zeros are shared (a coarse clock)."""
    if not values.any():
        return 1.0
    from scipy import stats  # takes long to import, and most runs compare nothing

    return float(stats.wilcoxon(values, alternative=alternative, zero_method="zsplit").pvalue)
