"""`python -m pytest_webgpu.performance.reproduce`: b and a of this adapter, each time in a process of its own.

Between processes a figure differs by what a bootstrap over the rounds of one cannot see: where memory lies, what the
clocks were. So the spread is printed beside the intervals, with what it should be: 5 % on a GPU, 15 % in software.
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
from pytest_webgpu.performance.stats import Fit, cost

HARDWARE, SOFTWARE = 0.05, 0.15


@dataclass(frozen=True)
class Reproduced:
    """`allowed`: how far from their median the processes' b may lie, as a share of it."""

    lines: tuple[Fit, ...]
    allowed: float

    @property
    def middle(self) -> float:
        return median(line.b.value for line in self.lines)

    @property
    def spread(self) -> float:
        """The largest distance of a process's b from their median, as a share of it."""
        return max(abs(line.b.value / self.middle - 1) for line in self.lines)

    @property
    def intervals_say_so(self) -> bool:
        """Each process's interval holds the median of all: whoever saw one of them was not misled."""
        return all(line.b.low <= self.middle <= line.b.high for line in self.lines)

    def __str__(self) -> str:
        told = "\n".join(
            f"process {i + 1}: b {1e6 * x.b.value:.2f} us [{1e6 * x.b.low:.2f}, {1e6 * x.b.high:.2f}], floor "
            f"{1e6 * x.b_floor:.2f}; a {1e6 * x.a.value:.1f} us [{1e6 * x.a.low:.1f}, {1e6 * x.a.high:.1f}]"
            for i, x in enumerate(self.lines)
        )
        verdict = "within" if self.spread <= self.allowed else "MORE than"
        held = "all hold" if self.intervals_say_so else "not all hold"
        return (f"{told}\nmedian {1e6 * self.middle:.2f} us, at most {self.spread:.1%} away from it: {verdict} "
                f"{self.allowed:.0%}; the intervals {held} the median")  # fmt: skip


def measure_reproduced(adapter: Adapter, processes: int = 5, rounds: int = 20, budget: float = 4.0) -> Reproduced:
    """One line a process, one process after the other; some seconds each."""
    lines = []
    for seed in range(processes):
        runner = open_runner(adapter)
        try:
            prepare(runner, [Setup()])
            variant = Variant("base", Setup().program, rounds=rounds, budget_seconds=budget)
            value = runner.run(Job((Measure((variant,), seed),)), deadline=120).values[0]
        finally:
            runner.close()
        assert value is not None
        lines.append(cost((r, n, k, s) for _, r, n, k, s in value["samples"]))
    return Reproduced(tuple(lines), SOFTWARE if adapter.info.software else HARDWARE)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--implementation", default="wgpu-native")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    adapter = choose(asked.backend, asked.implementation)
    found = measure_reproduced(adapter, asked.processes)
    print(f"{describe(adapter)}\n{found}")
    if asked.out:
        rows = [
            {"b": x.b.value, "low": x.b.low, "high": x.b.high, "floor": x.b_floor, "a": x.a.value} for x in found.lines
        ]
        asked.out.write_text(json.dumps({"adapter": adapter.info.adapter, "processes": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
