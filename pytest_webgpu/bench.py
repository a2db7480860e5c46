"""`--webgpu-bench`: is this kernel faster than the shipped ones of its op, or than it was, at these dims, here?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from pytest_webgpu.gate.against import other_kernel
from pytest_webgpu.kernels.source import KernelSource
from pytest_webgpu.ops.launch import Unfit, launch, signature
from pytest_webgpu.performance.compare import compare_kernels
from pytest_webgpu.performance.prepare import Candidate
from pytest_webgpu.performance.stats import Comparison
from pytest_webgpu.state import place_of

if TYPE_CHECKING:
    from pytest_webgpu.gpu.job import Runner
    from pytest_webgpu.state import State


def race(
    state: State, runner: Runner, kernel: KernelSource, dims: dict[str, int],
    scalars: Mapping[str, float] = MappingProxyType({}),
) -> list[tuple[str, Comparison]]:  # fmt: skip
    """The kernel against each of the others, paired; recorded for the summary. The name is the other's.

    Under `--webgpu-gate=fail` the test fails, at its end, when it got slower than `--webgpu-against`, under `strict`
    also when that cannot be told. Skips the test when there is nothing to compare with.
    """
    __tracebackhide__ = True
    op = state.contract(kernel)
    op.known(dims)
    mine = Candidate(op, kernel, dims, scalars)
    others = [Candidate(op, other, dims, scalars) for other in _others(state, runner, kernel, dims)]
    if not others:
        pytest.skip(f"NOT MEASURED: there is no other kernel of {op.name} that runs at {mine.key}")
    state.hold(kernel, runner, at=dims)  # what is wrong there has no speed
    state.progress(f"bench: {mine.key} against {', '.join(other.kernel.name for other in others)}")
    raced = compare_kernels(runner, mine, others)
    found = [(other.kernel.name, c) for other, c in raced.compared]
    for slow, times in raced.behind:
        state.progress(f"bench: {slow.kernel.name} left out: a first look finds it {times:.1f} times slower")
    if state.settings["trace"]:
        state.trace(
            runner, state.settings["model"][0], state.settings["dtype"][0], state.kernels.with_swaps([kernel])
        )  # fmt: skip
    against = state.settings["against"]
    for name, c in found:
        file, line = place_of(kernel) or (None, None)
        other = f"{name} of {against}" if against else name
        state.record(
            "race", mine=mine.key, other=other, verdict=c.verdict.value, ratio=c.ratio, low=c.low, high=c.high,
            p_within=c.p_within, faster=c.faster, rounds=c.rounds, against=against, file=file, line=line,
        )  # fmt: skip
        if against:
            told = f"{mine.key} takes {c.ratio:.3f} [{c.low:.3f}, {c.high:.3f}] of what {other} takes"
            state.gate.compared(f"{told}: {c.verdict.value}", c.verdict)
    return found


def _others(state: State, runner: Runner, kernel: KernelSource, dims: dict[str, int]) -> Sequence[KernelSource]:
    against = state.settings["against"]
    if against:
        return [other_kernel(kernel, against)]
    there = state.kernels.for_op(kernel.header.op)
    op, fit = state.contract(kernel), []
    for other in there:
        if (
            other.sha == kernel.sha
            or signature(op, other) != signature(op, kernel)
            or not other.features <= set(runner.info.features)
        ):
            continue
        try:
            launch(op, other, dims, {})
        except Unfit:
            continue
        fit.append(other)
    return fit
