"""Plays samples that were measured elsewhere through pytest-benchmark's fixture.

pytest-benchmark times one function at a time and so cannot interleave variants. Ours are measured interleaved
(`gpu.job.Measure`); each item then replays its own samples, so that pytest-benchmark's table, JSON and comparison
come out right. Only its public API is used:

    @pytest.mark.benchmark(timer=replayed_clock)
    def test_dispatch(benchmark):
        replay(benchmark, report["one-pass"].per_round, extra_info={...})
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_now = 0.0


def replayed_clock() -> float:
    """The time that `replay` says it is, in seconds: for `@pytest.mark.benchmark(timer=replayed_clock)`."""
    return _now


def replay(benchmark: Any, samples: Sequence[float], *, extra_info: Mapping[str, Any] | None = None) -> bool:
    """Makes `samples` (seconds, one a round) the rounds of the `benchmark` fixture.

    Returns False when pytest-benchmark is turned off (xdist, --benchmark-disable): nothing was recorded then, and
    the caller says NOT MEASURED. Raises ValueError for no samples, a sample that is no time (NaN, infinite, zero or
    negative), and a test without the `timer` mark.
    """
    if not samples:
        raise ValueError("no samples to replay: nothing was measured")
    for index, sample in enumerate(samples):
        if not (math.isfinite(sample) and sample > 0):
            raise ValueError(f"sample {index} is {sample} s, which is no time: the clock went backwards, or noise "
                             "outweighs what was timed; measure for longer")  # fmt: skip
    benchmark.extra_info.update(extra_info or {})
    remaining = iter(samples)

    def rewind() -> None:  # from zero each round, so that end - start is the sample to the last bit
        global _now
        _now = 0.0

    def play_next() -> None:
        global _now
        _now = next(remaining)

    benchmark.pedantic(play_next, setup=rewind, rounds=len(samples))
    if not benchmark.enabled:
        return False
    if benchmark.stats.stats.data != list(samples):
        raise ValueError("the test was timed by another clock: mark it with "
                         "@pytest.mark.benchmark(timer=replayed_clock)")  # fmt: skip
    return True
