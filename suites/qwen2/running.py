"""A model on the session's adapter: what the tests of this suite ask of it, each thing done once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.ablation import Ablation, Rung
from pytest_webgpu.performance.predict import Beside
from pytest_webgpu.qwen2.config import Model, find_model
from pytest_webgpu.qwen2.generate import Generation, Generator
from pytest_webgpu.state import State

ROUNDS = 5


@dataclass
class Running:
    """One model, dtype and set of fusions. Lengths: 32 tokens and 32 new ones for tiny, 128 new ones for larger models
    on a GPU; on a software adapter, where a token of those takes seconds, 5 and 2."""

    state: State
    runner: Runner
    name: str
    dtype: str
    fusions: str

    @cached_property
    def model(self) -> Model:
        return find_model(self.name)

    @property
    def label(self) -> str:
        return f"{self.model.name} {self.dtype}, fusions {self.fusions}"

    @property
    def slow(self) -> bool:
        return self.runner.info.software and self.name != "tiny"

    @property
    def new_tokens(self) -> int:
        return 2 if self.slow else 32 if self.name == "tiny" else 128

    @cached_property
    def prompt(self) -> list[int]:
        return self.model.drawn_prompt(5 if self.slow else 32)

    @cached_property
    def generator(self) -> Generator:
        self.state.progress(f"qwen2: {self.label}: plan, weights, pipelines")
        capacity = len(self.prompt) + self.new_tokens
        return Generator(self.model, self.runner, self.dtype, self.fusions, capacity, library=self.state.kernels)

    @cached_property
    def first(self) -> Generation:
        """With logits, and with every pipeline made: what is judged, not what is timed."""
        return self.generator.generate(self.prompt, self.new_tokens, logits=True)

    @property
    def decode(self) -> Plan:
        assert self.first.tokens
        return self.generator.plan(1)

    @cached_property
    def timed(self) -> list[Generation]:
        assert self.first.tokens  # compiled and warm
        self.state.progress(f"qwen2: {self.label}: tokens a second")
        return [self.generator.generate(self.prompt, self.new_tokens) for _ in range(1 if self.slow else ROUNDS)]

    def dispatches(self) -> Counter[str]:
        """Of a token, by op, as planned."""
        counted: Counter[str] = Counter()
        for step in self.decode.steps:
            counted[step.op] += len(step.passes)
        return counted

    def record(self, system: str, prefill: float, decode: float, new_tokens: int, **more: Any) -> None:
        """A row of the summary: seconds to the first token, and seconds of the others together."""
        self.state.record(
            "generation", system=system, model=self.model.name, dtype=self.dtype, prompt_tokens=len(self.prompt),
            new_tokens=new_tokens, prefill_seconds=prefill, decode_seconds=decode, **more,
        )  # fmt: skip


@dataclass(frozen=True)
class Ladder:
    """`allowed`: how far two right plans' logits may lie apart, each within the rule of qwen2.reference. `beside`: what
    the host and the device took for each level between the rounds."""

    measured: Ablation
    allowed: float
    beside: Beside

    def rung(self, name: str) -> tuple[Rung, Rung | None]:
        """The level of that name, and the one before it."""
        rungs = self.measured.rungs
        index = next(i for i, r in enumerate(rungs) if r.level.name == name)
        return rungs[index], rungs[index - 1] if index else None


def require_swapped(state: State, plan: Plan, names: Iterable[str]) -> None:
    """Skips, as not measured, where kernels were given by `--webgpu-kernel` and the plan has a step for none."""
    used = {step.sha for step in plan.steps}
    swapped = [k for k in state.kernels.all() if state.kernels.is_swapped(k)]
    if swapped and not any(k.sha in used for k in swapped):
        pytest.skip(f"NOT MEASURED: no step of the model runs {', '.join(names)}")
