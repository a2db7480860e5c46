"""The mutants of a kernel file on the session's adapter, and the record of what came of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_webgpu.kernels.equivalent import read_equivalent, reason_of
from pytest_webgpu.kernels.mutants import Mutant, mutants, spread

if TYPE_CHECKING:
    from pytest_webgpu.gpu.job import Runner
    from pytest_webgpu.kernels.kernel import KernelSource
    from pytest_webgpu.state import State

SCOUT = "SwiftShader"


@dataclass
class Mutation:
    """Of one kernel file: mutants by what told them, those that nothing told, and those that are no faults."""

    kernel: str
    op: str
    causes: Counter[str] = field(default_factory=Counter)
    survivors: list[Mutant] = field(default_factory=list)
    equivalent: int = 0
    refused: int = 0
    seconds: float = 0.0

    @property
    def killed(self) -> int:
        return self.causes.total()

    @property
    def share(self) -> float:
        """Killed of those that are faults; 1 where there are none."""
        faults = self.killed + len(self.survivors)
        return self.killed / faults if faults else 1.0

    def as_data(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel, "op": self.op, "killed": self.killed, "causes": dict(self.causes),
            "survivors": [{"name": m.name, "diff": m.diff} for m in self.survivors],
            "equivalent": self.equivalent, "refused": self.refused, "seconds": self.seconds,
        }  # fmt: skip


def mutate(state: State, runner: Runner, variants: Sequence[KernelSource]) -> Mutation:
    """Runs the mutants of a file's variants and records their fate."""
    from pytest_webgpu.conformance.mutation import hunt

    first, began = variants[0], time.perf_counter()
    scout = _scout(runner.info.implementation) if runner.info.software and SCOUT not in runner.info.adapter else None
    entries = read_equivalent(first.path.parent) if first.path else []
    found = Mutation(first.path.name.removesuffix(".wgsl") if first.path else first.name, first.header.op)
    for kernel, own in _of_each(variants, state.settings["most-mutants"]):
        faults = [m for m in own if reason_of(kernel, m, entries) is None]
        found.equivalent += len(own) - len(faults)
        if not faults:
            continue
        state.progress(f"mutants: {len(faults)} of {kernel.name}")
        for fate in hunt(state.contract(kernel), kernel, runner, faults, scout=scout):
            if fate.fate == "killed":
                found.causes[fate.cause] += 1
            elif fate.fate == "survived":
                found.survivors.append(fate.mutant)
            else:
                found.refused += 1
    found.seconds = time.perf_counter() - began
    state.record("mutants", **found.as_data())
    return found


@cache
def _scout(implementation: str) -> Runner | None:
    """SwiftShader beside another software adapter: it compiles some five times faster, so mutants meet it first."""
    from pytest_webgpu.gpu import adapters, open_runner
    from pytest_webgpu.gpu.job import NoAdapter

    if implementation not in adapters.MODULES:
        return None
    try:
        return open_runner(adapters.choose("vulkan", implementation, SCOUT))
    except NoAdapter:
        return None


def _of_each(variants: Sequence[KernelSource], most: str | None) -> Iterator[tuple[KernelSource, list[Mutant]]]:
    """The mutants of each variant that those before it do not have: the same fault in the same line."""
    seen: set[tuple[int, str, tuple[str, ...]]] = set()
    for kernel in variants:
        fresh = {(m.line, m.fault, m.changed): m for m in mutants(kernel)}
        own = [m for key, m in fresh.items() if key not in seen]
        seen |= fresh.keys()
        if most is not None:
            chosen = {m.name for m in spread(own, int(most) if kernel is variants[0] else 0)}
            own = [m for m in own if m.name in chosen]
        yield kernel, own
