"""`python -m pytest_webgpu.gate.simulate`: false alarms and power of the stored-baseline rule.

A session's value is the least of three runs. Log times vary by session and, within it, by run, where noise only
adds (another process takes time, none gives it). Heavy tails are Student's t(3) of the same standard deviation.
"""

from __future__ import annotations

import argparse

import numpy as np

from pytest_webgpu.gate.rules import GATED, WIDEST, Observation, judge, limit
from pytest_webgpu.performance.stats import Floats, Verdict

RUNS = 3
BASELINE = 5
# Session and run noise: {slowdown: share called worse}, as expected of the rule at five baseline sessions.
TABLE = {
    (0.02, 0.01): {0.0: 0.002, 0.1: 0.85, 0.2: 1.00},
    (0.03, 0.015): {0.0: 0.005, 0.1: 0.59, 0.2: 0.98},
    (0.05, 0.02): {0.0: 0.016, 0.1: 0.32, 0.2: 0.81},
}


def sessions(rng: np.random.Generator, shape: tuple[int, ...], session: float, run: float, heavy: bool) -> Floats:
    """Log values of sessions."""

    def unit(*size: int) -> Floats:
        return rng.standard_t(3, size) / np.sqrt(3) if heavy else rng.standard_normal(size)

    values: Floats = session * unit(*shape) + (run * np.abs(unit(*shape, RUNS))).min(axis=-1)
    return values


def stored_rates(
    slowdown: float, session: float, run: float, *, heavy: bool = False, baseline: int = BASELINE,
    trials: int = 20_000, seed: int = 0,
) -> dict[Verdict, float]:  # fmt: skip
    """How often the rule gives each verdict at a true `slowdown` (0.1 = 10 %), one benchmark, two sessions."""
    rng = np.random.default_rng(seed)
    logs = sessions(rng, (trials, baseline), session, run, heavy)
    tried = np.log1p(slowdown) + sessions(rng, (trials, 2), session, run, heavy)
    limits = limit(logs)
    over = (tried - logs.mean(axis=-1, keepdims=True) > limits[:, None]).all(axis=-1)
    steady = limits <= WIDEST
    worse, cannot = float(np.mean(over & steady)), float(np.mean(~steady))
    return {Verdict.WORSE: worse, Verdict.CANNOT_TELL: cannot, Verdict.NOT_WORSE: 1 - worse - cannot}


def run_rates(
    slowdown: float, session: float, run: float, *, benchmarks: int = GATED, trials: int = 2000, seed: int = 0
) -> dict[str, float]:
    """The same over whole runs, by `judge` itself: so many benchmarks, of which one is slower. Shares of runs: `found`
    (that one is called worse), `false alarm` (another one is), `cannot tell` (of the slower one)."""
    rng = np.random.default_rng(seed)
    drawn = np.exp(sessions(rng, (trials, benchmarks, BASELINE + 2), session, run, heavy=False))
    drawn[:, 0, BASELINE:] *= 1 + slowdown
    told = {"found": 0.0, "false alarm": 0.0, "cannot tell": 0.0}
    for values in drawn:
        seen = [Observation(str(i), v[BASELINE], v[:BASELINE].tolist(), v[BASELINE + 1]) for i, v in enumerate(values)]
        first, *others = (j.verdict for j in judge(seen))
        told["found"] += first is Verdict.WORSE
        told["cannot tell"] += first is Verdict.CANNOT_TELL
        told["false alarm"] += Verdict.WORSE in others
    return {what: hits / trials for what, hits in told.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20_000)
    trials = parser.parse_args().trials
    print(f"stored-baseline rule, {BASELINE} baseline sessions, {trials} trials")
    print("session/run noise    tails  slowdown   worse %  expected %  cannot tell %")
    for (session, run), expected in TABLE.items():
        for heavy in (False, True):
            for slowdown, published in expected.items():
                rates = stored_rates(slowdown, session, run, heavy=heavy, trials=trials)
                print(f"{100 * session:10.0f} / {100 * run:.1f} % {'t(3)' if heavy else 'normal':>7} {slowdown:9.0%} "
                      f"{100 * rates[Verdict.WORSE]:9.2f} {100 * published:11.1f} "
                      f"{100 * rates[Verdict.CANNOT_TELL]:14.1f}")  # fmt: skip
    print(f"\nwhole runs of {GATED} benchmarks, one of them slower, {trials // 10} trials")
    print("session/run noise  slowdown   it is found %  another is called worse %  cannot tell %")
    for session, run in TABLE:
        for slowdown in (0.0, 0.1, 0.2):
            told = run_rates(slowdown, session, run, trials=trials // 10)
            print(f"{100 * session:10.0f} / {100 * run:.1f} % {slowdown:8.0%} {100 * told['found']:14.1f} "
                  f"{100 * told['false alarm']:25.1f} {100 * told['cannot tell']:14.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
