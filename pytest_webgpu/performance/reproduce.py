"""`python -m pytest_webgpu.performance.reproduce`: a dispatch's cost on this adapter, found several times anew.

Between processes a figure differs by what a bootstrap over the rounds of one cannot see: where memory lies, what the
clocks were. So a run is several processes: its figure is the median of theirs, its interval reaches over all of theirs.
The runs' spread is printed beside the intervals, with what it should be: 5 % on a GPU, 15 % in software.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import Adapter, choose, describe
from pytest_webgpu.gpu.job import Job, Measure, Variant
from pytest_webgpu.performance.dispatch import prepare
from pytest_webgpu.performance.dispatch_report import Setup
from pytest_webgpu.performance.stats import Estimate, Fit, cost

HARDWARE, SOFTWARE = 0.05, 0.15


@dataclass(frozen=True)
class Run:
    """The lines of processes that ran one after the other."""

    lines: tuple[Fit, ...]

    @property
    def b(self) -> Estimate:
        return _over([line.b for line in self.lines])

    @property
    def a(self) -> Estimate:
        return _over([line.a for line in self.lines])

    @property
    def b_floor(self) -> float:
        return min(line.b_floor for line in self.lines)


@dataclass(frozen=True)
class Reproduced:
    """`allowed`: how far from their median the runs' b may lie, as a share of it."""

    runs: tuple[Run, ...]
    allowed: float

    @property
    def middle(self) -> float:
        return median(run.b.value for run in self.runs)

    @property
    def spread(self) -> float:
        """The largest distance of a run's b from their median, as a share of it."""
        return max(abs(run.b.value / self.middle - 1) for run in self.runs)

    @property
    def intervals_say_so(self) -> bool:
        """Each run's interval holds the median of all: whoever saw one of them was not misled."""
        return all(run.b.low <= self.middle <= run.b.high for run in self.runs)

    def __str__(self) -> str:
        told = "\n".join(
            f"run {i + 1}: b {1e6 * x.b.value:.2f} us [{1e6 * x.b.low:.2f}, {1e6 * x.b.high:.2f}], floor "
            f"{1e6 * x.b_floor:.2f}; a {1e6 * x.a.value:.1f} us [{1e6 * x.a.low:.1f}, {1e6 * x.a.high:.1f}]; processes "
            + ", ".join(f"{1e6 * line.b.value:.2f}" for line in x.lines)
            for i, x in enumerate(self.runs)
        )
        verdict = "within" if self.spread <= self.allowed else "MORE than"
        held = "all hold" if self.intervals_say_so else "not all hold"
        return (f"{told}\nmedian {1e6 * self.middle:.2f} us, at most {self.spread:.1%} away from it: {verdict} "
                f"{self.allowed:.0%}; the intervals {held} the median")  # fmt: skip


def _over(parts: Sequence[Estimate]) -> Estimate:
    values = tuple(e.value for e in parts)
    return Estimate(median(values), min(e.low for e in parts), max(e.high for e in parts), values)


def measure_reproduced(
    adapter: Adapter, runs: int = 5, processes: int = 3, rounds: int = 20, budget: float = 4.0
) -> Reproduced:
    """So many runs of so many processes, one after the other; some seconds a process."""
    lines = [_line(adapter, seed, rounds, budget) for seed in range(runs * processes)]
    groups = tuple(Run(tuple(lines[i : i + processes])) for i in range(0, len(lines), processes))
    return Reproduced(groups, SOFTWARE if adapter.info.software else HARDWARE)


def _line(adapter: Adapter, seed: int, rounds: int, budget: float) -> Fit:
    runner = open_runner(adapter)
    try:
        prepare(runner, [Setup()])
        variant = Variant("base", Setup().program, rounds=rounds, budget_seconds=budget)
        value = runner.run(Job((Measure((variant,), seed),)), deadline=120).values[0]
    finally:
        runner.close()
    assert value is not None
    return cost((r, n, k, s) for _, r, n, k, s in value["samples"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--processes", type=int, default=3, help="of each run")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--implementation", default="wgpu-native")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    adapter = choose(asked.backend, asked.implementation)
    found = measure_reproduced(adapter, asked.runs, asked.processes)
    print(f"{describe(adapter)}\n{found}")
    if asked.out:
        rows = [
            {"b": x.b.value, "low": x.b.low, "high": x.b.high, "floor": x.b_floor, "a": x.a.value,
             "processes": x.b.per_round}
            for x in found.runs
        ]  # fmt: skip
        asked.out.write_text(json.dumps({"adapter": adapter.info.adapter, "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
