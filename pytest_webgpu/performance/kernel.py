"""How long kernels take at given dims, and what share of the adapter's ceiling that is.

A kernel's time is the slope of T over repeated launches in one pass, so neither the wait nor the submit is in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_webgpu.gpu.job import Runner, Variant
from pytest_webgpu.performance.prepare import Candidate, measure, prepared
from pytest_webgpu.performance.roofline import Roofline
from pytest_webgpu.performance.stats import Estimate, MeasurementError, cost
from pytest_webgpu.performance.work import Work, work

LAUNCHES = (1, 2, 5, 10, 20, 50, 100, 200)


@dataclass(frozen=True)
class KernelTime:
    """Seconds a launch. `copies`: how many of its large tensors took turns. `share` of `limit`, where a roofline was
    given."""

    candidate: Candidate
    time: Estimate
    work: Work
    copies: int
    share: Estimate | None = None
    limit: str = ""

    @property
    def bytes_per_second(self) -> float:
        return self.work.bytes / self.time.value

    @property
    def flops_per_second(self) -> float:
        return self.work.flops / self.time.value


@dataclass(frozen=True)
class Times:
    """By candidate's key; `not_measured` says why for those that gave no figure."""

    measured: Mapping[str, KernelTime]
    not_measured: Mapping[str, str]


def time_kernels(
    runner: Runner,
    candidates: Sequence[Candidate],
    *,
    roofline: Roofline | None = None,
    rounds: int = 20,
    budget: float = 2.0,
    launches: Sequence[int] = LAUNCHES,
    warm_up: float = 1.0,
    seed: int = 0,
) -> Times:
    """Times the candidates at N of `launches`, interleaved in random order; at most `budget` seconds each.

    Raises KernelError or Unfit for a kernel that does not fit its dims, and GpuError as the runner does.
    """
    measured: dict[str, KernelTime] = {}
    not_measured: dict[str, str] = {}
    with prepared(runner, candidates, seed) as made:
        variants = [
            Variant(c.key, m.program, "one-pass", tuple(n * m.passes for n in launches), rounds=rounds,
                    budget_seconds=budget)
            for c, m in zip(candidates, made, strict=True)
        ]  # fmt: skip
        samples = measure(runner, variants, seed, warm_up)
    for index, (candidate, one) in enumerate(zip(candidates, made, strict=True)):
        try:
            time = cost((r, n, k, s) for i, r, n, k, s in samples if i == index).b.scaled(one.passes)
        except MeasurementError as error:
            not_measured[candidate.key] = str(error)
            continue
        does = work(candidate.op, one.launch)
        known = KernelTime(candidate, time, does, one.copies)
        if roofline is not None:
            known = dataclasses.replace(known, share=roofline.share(does, time), limit=roofline.limited_by(does))
        measured[candidate.key] = known
    return Times(measured, not_measured)
