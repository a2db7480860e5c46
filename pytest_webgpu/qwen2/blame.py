"""Which dispatch of a model is the first to be wrong: each is held to its own bound, on the inputs it really had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pytest_webgpu.compiler.oracle import Memory
from pytest_webgpu.compiler.plan import Plan, Step
from pytest_webgpu.conformance.bounds import reference_with_bound
from pytest_webgpu.conformance.calibrate import calibration_of
from pytest_webgpu.gpu.job import Command, Drop, Job, MakeProgram, ReadBuffer, RunProgram
from pytest_webgpu.ops import contract as contracts
from pytest_webgpu.qwen2.generate import DEADLINE, Generator

_NUMPY: dict[str, Any] = {"f32": np.float32, "f16x2": np.float16, "i32": np.int32}
_DTYPE = {"f32": "f32", "f16x2": "f16", "i32": "i32"}
UPLOADED = ("weight", "constant")
"""What is not read back: the reference has it from the checkpoint, so that a wrong upload shows as well."""


@dataclass(frozen=True)
class Blame:
    """`number`: of the dispatch's step in its plan, from 1. `ratio`: the error of the worst element over its bound."""

    tokens: int
    number: int
    of: int
    step: Step
    output: str
    index: tuple[int, ...]
    got: float
    wanted: float
    ratio: float

    def __str__(self) -> str:
        at = ", ".join(map(str, self.index))
        return (
            f"the first wrong dispatch is {self.number} of {self.of} in the step of {self.tokens} "
            f"token{'s' if self.tokens > 1 else ''}: {self.step.op} by {self.step.kernel} ({self.step.where}): "
            f"{self.output}[{at}] is {self.got:.7g}, wanted {self.wanted:.7g}, {self.ratio:.3g} times its bound"
        )


def first_wrong(generator: Generator, prompt: Sequence[int]) -> Blame | None:
    """Runs the prompt, and one token after it, a step of the plan at a time. None where every output is in its bound.

    Sums are held to the bound for any data, since activations are not drawn independently.
    """
    prompt, chunks = generator.ready(prompt, 2)
    one = _Stepwise(generator)
    for chunk in chunks:
        for command in generator.chunk_commands(prompt, chunk, False):
            if not isinstance(command, RunProgram):
                one.run(command)
            elif found := one.section(generator.plans[chunk.length], command.name.rpartition(".")[2]):
                return found
    return one.section(generator.plans[1], "body")


class _Stepwise:
    def __init__(self, generator: Generator) -> None:
        self.session, self.runner = generator.session, generator.runner
        self.memory = Memory(generator.model.weights)
        self.calibration = calibration_of(self.runner)

    def run(self, *commands: Command) -> Any:
        return self.runner.run(Job(commands), DEADLINE)

    def section(self, plan: Plan, section: str) -> Blame | None:
        for number, step in enumerate(plan.steps, 1):
            if step.section == section and (found := self.step(plan, number, step)):
                return found
        return None

    def step(self, plan: Plan, number: int, step: Step) -> Blame | None:
        """Runs a step between two looks at the buffers that it reads and writes."""
        refs = [*step.arguments.values(), *step.on_device.values(), *step.outputs.values()]
        names = list(dict.fromkeys(r.buffer for r in refs if plan.buffers[r.buffer].kind not in UPLOADED))
        program = self.session.name("one step")
        look = [ReadBuffer(self.session.name(name)) for name in names]
        made = MakeProgram(program, tuple(self.session.dispatches(step)))
        result = self.run(*look, made, RunProgram(program, wait=True), *look, Drop((program,)))
        self.remember(plan, names, [result.blob(i) for i in range(len(names))])
        inputs, numbers = self.memory.given(plan, step)
        dtypes = {name: _DTYPE[plan.buffers[ref.buffer].storage] for name, ref in step.outputs.items()}
        wanted = reference_with_bound(contracts.get(step.op), inputs, numbers, dtypes, False, self.calibration)
        self.remember(plan, names, [result.blob(len(names) + 2 + i) for i in range(len(names))])
        for output, ref in step.outputs.items():
            got, right = self.memory.read(plan, ref).double(), wanted[output]
            ratio = _ratio(got, right.value, right.bound, right.unspecified)
            if not bool((ratio <= 1).all()):
                worst = int(ratio.nan_to_num(torch.inf).argmax())
                index = tuple(int(i) for i in np.unravel_index(worst, tuple(ratio.shape)))
                return Blame(plan.tokens, number, len(plan.steps), step, output, index, float(got[index]),
                             float(right.value[index]), float(ratio[index]))  # fmt: skip
        return None

    def remember(self, plan: Plan, names: Sequence[str], blobs: Sequence[Any]) -> None:
        for name, blob in zip(names, blobs, strict=True):
            held = np.frombuffer(blob, _NUMPY[plan.buffers[name].storage])
            wide = np.int64 if held.dtype.kind == "i" else np.float64
            self.memory.tensors[name] = torch.from_numpy(held.astype(wide))


def _ratio(got: Tensor, value: Tensor, bound: Tensor, unspecified: Tensor) -> Tensor:
    """Error over bound; 0 where nothing is promised or the bits are the wanted ones, infinite where no error is."""
    error = (got - value.double()).abs()
    ratio = torch.where(bound > 0, error / bound, torch.where(error == 0, 0.0, torch.inf))
    return torch.where(unspecified | (error == 0), 0.0, ratio.nan_to_num(torch.inf))
