"""`python -m pytest_webgpu.performance.known_cost`: does b find a cost that was put there, and does a stay?

On a device in this process, a busy wait is added to each dispatch of one of two programs that are otherwise the same.
Both are timed interleaved, so what the machine does meanwhile falls on both.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.gpu import adapters
from pytest_webgpu.gpu.job import (
    MODES,
    Bound,
    Dispatch,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    Measure,
    Mode,
    Slot,
    Variant,
)
from pytest_webgpu.gpu.native import NativeRunner
from pytest_webgpu.performance.dispatch import CODE, WAIT_EACH_COUNTS
from pytest_webgpu.performance.stats import Estimate, estimate, fit

PROGRAMS = ("plain", "delayed")


class DelayingRunner(NativeRunner):
    """A device on which each dispatch of the pipeline "delayed" takes `delay` seconds more, where it is set."""

    def __init__(self, adapter: adapters.Adapter, delay: float) -> None:
        super().__init__(adapter)
        set_pipeline = self.calls.set_pipeline
        self.delayed: Any = None

        def delaying(compute_pass: Any, pipeline: Any) -> None:
            set_pipeline(compute_pass, pipeline)
            if pipeline is self.delayed:
                end = time.perf_counter() + delay
                while time.perf_counter() < end:
                    pass

        self.calls = dataclasses.replace(self.calls, set_pipeline=delaying)


@dataclass(frozen=True)
class Moved:
    """How far b and a moved in a mode, in seconds: the median over rounds of delayed less plain."""

    mode: Mode
    b: Estimate
    a: Estimate


def measure_known_cost(
    runner: DelayingRunner, rounds: int = 20, counts: tuple[int, ...] = Variant.counts, budget: float = 20.0
) -> list[Moved]:
    """Every mode, both programs, interleaved; at most `budget` seconds each."""
    for name in PROGRAMS:  # sources that differ, so that the two share no pipeline
        code = CODE.format(dtype="f32") + f"// {name}"
        runner.run(Job((
            MakeBuffer(name, 4), MakePipeline(name, code, "main", (Slot(0, 0, "storage"),)),
            MakeProgram(name, (Dispatch(name, (Bound(0, 0, name),), (1, 1, 1)),)),
        )))  # fmt: skip
    runner.delayed = runner.program("delayed").steps[0][0]
    variants = tuple(
        Variant(f"{name} {mode}", name, mode, tuple(n for n in counts if n <= _most(mode)),
                rounds=rounds, budget_seconds=budget)
        for mode in MODES for name in PROGRAMS
    )  # fmt: skip
    value = runner.run(Job((Measure(variants),))).values[0]
    assert value is not None
    lines = [fit((r, n, k, s) for i, r, n, k, s in value["samples"] if i == index) for index in range(len(variants))]
    return [
        Moved(mode, _less(delayed.b, plain.b), _less(delayed.a, plain.a))
        for mode, plain, delayed in zip(MODES, lines[::2], lines[1::2], strict=True)
    ]


def _most(mode: Mode) -> int:
    return WAIT_EACH_COUNTS[-1] if mode == "wait-each" else Variant.counts[-1]


def _less(delayed: Estimate, plain: Estimate) -> Estimate:
    return estimate([x - y for x, y in zip(delayed.per_round, plain.per_round, strict=False)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--delay", type=float, default=100e-6, help="seconds a dispatch")
    asked = parser.parse_args()
    adapter = adapters.choose(asked.backend)
    print(f"{adapters.describe(adapter)}\n{1e6 * asked.delay:.1f} us more a dispatch moved, in us [95 %]")
    for one in measure_known_cost(DelayingRunner(adapter, asked.delay)):
        b, a = one.b.scaled(1e6), one.a.scaled(1e6)
        share = one.b.value / asked.delay
        print(f"{one.mode:12} b by {b.value:8.2f} [{b.low:.2f}, {b.high:.2f}], {share:.1%} of it; "
              f"a by {a.value:8.2f} [{a.low:.2f}, {a.high:.2f}]")  # fmt: skip


if __name__ == "__main__":
    main()
