"""Would a kernel's checks notice a fault in it? The fate of each of its mutants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pytest_webgpu.conformance.check import Check, one_thread
from pytest_webgpu.conformance.failure import ConformanceFailure
from pytest_webgpu.conformance.settings import Settings
from pytest_webgpu.conformance.trials import Trials
from pytest_webgpu.gpu.job import CompileError, LimitError, Runner, ValidationError
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.mutants import Mutant
from pytest_webgpu.ops.contract import Contract

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource

FULL, SCOUT = 1 << 20, 1 << 13  # invocations of the largest cases
QUICK = 0.25  # seconds of the longest case on the scout, which compiles fast and runs slowly


@dataclass(frozen=True)
class Fate:
    """What came of a mutant: told by the checks, for this `cause`; not told; or no kernel to any compiler."""

    mutant: Mutant
    fate: Literal["killed", "survived", "refused"]
    cause: str = ""


def hunt(
    contract: Contract, kernel: KernelSource, runner: Runner, mutants: Iterable[Mutant], *,
    scout: Runner | None = None, settings: Settings | None = None,
) -> Iterator[Fate]:  # fmt: skip
    """The fate of each mutant on `runner`, which meets the cases of `check` that are light enough.

    `scout`: an adapter that compiles faster, on which mutants run first; only those that it does not tell come to
    `runner`. Raises ConformanceFailure where the kernel itself is wrong.
    """
    how = settings or Settings()
    with one_thread():
        grounds = [_Ground(contract, kernel, r, how, SCOUT, QUICK) for r in (scout,) if r is not None]
        grounds = [g for g in grounds if g.fit] + [_Ground(contract, kernel, runner, how, FULL)]
        for mutant in mutants:
            yield _fate(kernel, mutant, grounds)


def _fate(kernel: KernelSource, mutant: Mutant, grounds: Sequence[_Ground]) -> Fate:
    for ground in grounds:
        trials = ground.trials  # raises where the kernel itself is wrong
        try:
            cause = trials.tells(kernel.rewritten(mutant.text))
        except (KernelError, CompileError, ValidationError, LimitError):
            return Fate(mutant, "refused")
        if cause:
            return Fate(mutant, "killed", cause)
    return Fate(mutant, "survived")


@dataclass
class _Ground:
    """One adapter, with trials that are made when the first mutant comes to it."""

    contract: Contract
    kernel: KernelSource
    runner: Runner
    settings: Settings
    most: int
    longest: float = math.inf

    @cached_property
    def trials(self) -> Trials:
        return Trials(Check(self.contract, self.kernel, self.runner, self.settings), self.most, self.longest)

    @property
    def fit(self) -> bool:
        """Whether the kernel itself runs here and is right."""
        if not self.kernel.features <= set(self.runner.info.features):
            return False
        try:
            return bool(self.trials.groups)
        except (ConformanceFailure, CompileError, ValidationError, LimitError):
            return False
