"""`python -m pytest_webgpu.performance.simulate`: do the intervals cover the truth, and does the paired rule hold?

Costs are known (a = 100, b = 5 microseconds) and noise is added: additive, symmetric about the truth, with normal
and heavy tails. Small N are repeated until a sample lasts a millisecond, as `gpu.job.Measure` does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from pytest_webgpu.performance.stats import Floats, Verdict, bootstrap_median, compare, theil_sen

COUNTS = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], dtype=np.float64)
A, B = 100e-6, 5e-6
MIN_SAMPLE = 1e-3
Noise = Callable[[np.random.Generator, Floats, tuple[int, ...]], Floats]


def _additive(draw: Callable[[np.random.Generator, tuple[int, ...]], Floats]) -> Noise:
    def noise(rng: np.random.Generator, truth: Floats, shape: tuple[int, ...]) -> Floats:
        repeats = np.maximum(1, MIN_SAMPLE / truth)
        return 20e-6 * draw(rng, shape) / np.sqrt(repeats)

    return noise


def _drifting(rng: np.random.Generator, truth: Floats, shape: tuple[int, ...]) -> Floats:
    """A round is slow or fast as a whole (clocks, temperature), by 5 % with heavy tails."""
    return 0.05 * rng.standard_t(3, (*shape[:-1], 1)) * truth + 0.03 * rng.standard_t(3, shape) * truth


NOISES: dict[str, Noise] = {
    "additive, normal": _additive(lambda rng, shape: rng.standard_normal(shape)),
    "additive, t(2)": _additive(lambda rng, shape: rng.standard_t(2, shape)),
    "additive, Cauchy": _additive(lambda rng, shape: rng.standard_cauchy(shape)),
    "additive, double exponential": _additive(lambda rng, shape: rng.laplace(size=shape)),
    "proportional, drifting rounds, t(3)": _drifting,
}


def coverage(noise: Noise, rounds: int, trials: int, seed: int = 0) -> tuple[float, float]:
    """The shares of `trials` in which the intervals of b and of a hold the truth."""
    rng = np.random.default_rng(seed)
    truth = A + B * COUNTS
    hits = np.zeros(2)
    for start in range(0, trials, 100):  # in blocks, for memory
        block = min(100, trials - start)
        times = truth + noise(rng, truth, (block, rounds, len(COUNTS)))
        for which, (per_round, true) in enumerate(zip(theil_sen(COUNTS, times), (B, A), strict=True)):
            low, high = bootstrap_median(per_round)
            hits[which] += np.count_nonzero((low <= true) & (true <= high))
    return float(hits[0] / trials), float(hits[1] / trials)


def paired_rates(slowdown: float, noise: float, trials: int, rounds: int = 24, seed: int = 0) -> dict[Verdict, float]:
    """How often the paired rule gives each verdict at a true `slowdown` (0.1 = 10 %) and noise a round (log scale)."""
    rng = np.random.default_rng(seed)
    times = np.exp(noise * rng.standard_t(5, (trials, 2, rounds)) / np.sqrt(5 / 3))
    verdicts = [compare(old.tolist(), (new * (1 + slowdown)).tolist()).verdict for old, new in times]
    return {v: verdicts.count(v) / trials for v in Verdict}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    print(f"coverage of 95 % intervals, {trials} trials\n{'noise':38}{'rounds':>7}{'b %':>8}{'a %':>8}")
    for name, noise in NOISES.items():
        for rounds in (10, 20):
            b, a = coverage(noise, rounds, trials)
            print(f"{name:38}{rounds:7}{100 * b:8.1f}{100 * a:8.1f}")
    print("\npaired rule, 24 rounds\nnoise a round  slowdown   worse %  not worse %  cannot tell %")
    for spread in (0.01, 0.025, 0.05, 0.15):
        for slowdown in (0.0, 0.05, 0.1, 0.2):
            rates = [100 * paired_rates(slowdown, spread, trials // 4)[v] for v in list(Verdict)[:3]]
            print(f"{100 * spread:11.1f} %{100 * slowdown:8.0f} %{rates[0]:10.1f}{rates[1]:13.1f}{rates[2]:15.1f}")


if __name__ == "__main__":
    main()
