"""What one replay of a plan issues and does, and which kernels it runs at which dims."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import reduce

from pytest_webgpu.compiler.plan import Plan, Step, bytes_of
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.ops import contract
from pytest_webgpu.performance.model import Token
from pytest_webgpu.performance.prepare import Candidate
from pytest_webgpu.performance.work import Tensor, Work, work_of


def token(plan: Plan, start: int) -> Token:
    """One replay from position `start` on (`start` tokens in the cache)."""
    return Token(
        plan.dispatches, reduce(Work.__add__, (step_work(plan, step, start) for step in plan.steps), Work(0, 0))
    )


def step_work(plan: Plan, step: Step, start: int) -> Work:
    """The work of one step. What it writes in place is counted once."""
    tensors = (
        Tensor(name, ref.shape, bytes_of(plan.buffers[ref.buffer].storage, math.prod(ref.shape)))
        for name, ref in {**step.arguments, **step.outputs}.items()
    )
    return work_of(step.op, {**step.dims, **step.scalars, "start": start}, tensors)


def candidates(plan: Plan, kernels: Iterable[KernelSource], start: int) -> list[tuple[Candidate, int]]:
    """Each kernel at the dims, scalars and tunables at which the plan runs it, and in how many steps.

    A step whose kernel is not among `kernels`, by name and source, is left out.
    """
    known = {(k.name, k.sha): k for k in kernels}
    found: dict[str, Candidate] = {}
    counted: Counter[str] = Counter()
    for step in plan.steps:
        if (kernel := known.get((step.kernel, step.sha))) is not None:
            scalars = {**step.scalars, **({"start": start} if "start" in step.on_device else {})}
            candidate = Candidate(contract.get(step.op), kernel, step.dims, scalars, step.tune)
            found[candidate.key] = candidate
            counted[candidate.key] += 1
    return [(found[key], count) for key, count in counted.items()]
