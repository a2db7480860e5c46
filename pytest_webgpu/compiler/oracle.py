"""A plan run by the contracts on the CPU: what the model must give, without a GPU.

It reads and writes the plan's own buffers, so a buffer that is recycled too early, or an argument bound at the wrong
place, shows in the logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from pytest_webgpu.compiler.load import Weights, rows_of
from pytest_webgpu.compiler.plan import Buffer, Plan, Ref, Step
from pytest_webgpu.compiler.quantise import held
from pytest_webgpu.ops import contract as contracts


class Memory:
    """The buffers of plans that share weights, caches and state. `dtype`: in which floats are computed.

    Values are rounded to what a buffer stores (f16x2, q4_32); what nothing has written is NaN.
    """

    def __init__(self, weights: Weights, dtype: torch.dtype = torch.float64) -> None:
        self.weights, self.dtype = weights, dtype
        self.tensors: dict[str, Tensor] = {}

    def tensor(self, plan: Plan, name: str) -> Tensor:
        """A buffer's elements, flat."""
        if name not in self.tensors:
            self.tensors[name] = self._make(plan, plan.buffers[name])
        return self.tensors[name]

    def _make(self, plan: Plan, buffer: Buffer) -> Tensor:
        if buffer.kind == "weight":
            parts = [rows_of(self.weights, rows) for rows in buffer.rows]
            if buffer.storage == "q4_32":
                parts = [held(part) for part in parts]
            return self._stored(torch.cat([torch.from_numpy(part).reshape(-1) for part in parts]), buffer)
        if buffer.kind == "constant":
            return torch.from_numpy(plan.constants[buffer.name]).reshape(-1).to(self.dtype)
        if buffer.storage == "i32":
            return torch.zeros(prod(buffer.shape), dtype=torch.int64)
        return torch.full((prod(buffer.shape),), torch.nan, dtype=self.dtype)

    def _stored(self, value: Tensor, buffer: Buffer) -> Tensor:
        if buffer.storage == "i32":
            return value.to(torch.int64)
        return (value.half() if buffer.storage == "f16x2" else value).to(self.dtype)

    def read(self, plan: Plan, ref: Ref) -> Tensor:
        """A copy: as_strided, which some contracts use, counts from the beginning of a tensor's memory."""
        return self.tensor(plan, ref.buffer)[ref.offset :][: prod(ref.shape)].reshape(ref.shape).clone()

    def write(self, plan: Plan, ref: Ref, value: Tensor) -> None:
        place = self.tensor(plan, ref.buffer)[ref.offset :][: prod(ref.shape)]
        place.copy_(self._stored(value.reshape(-1), plan.buffers[ref.buffer]))

    def set(self, plan: Plan, values: Mapping[str, Sequence[int]]) -> None:
        """Writes integers into inputs or state."""
        for name, numbers in values.items():
            self.tensor(plan, name)[: len(numbers)] = torch.tensor(numbers)

    def given(self, plan: Plan, step: Step) -> tuple[dict[str, Tensor], dict[str, float]]:
        """What the step's contract is called with: tensors, and scalars with those that lie on the device."""
        inputs = {name: self.read(plan, ref) for name, ref in step.arguments.items()}
        at = {name: int(self.read(plan, ref).reshape(-1)[0]) for name, ref in step.on_device.items()}
        sizes = {k: v for k, v in step.dims.items() if k in contracts.get(step.op).sizes}
        return inputs, {**sizes, **step.scalars, **at}

    def run(self, plan: Plan, section: str | None = None) -> Tensor:
        """Runs the steps (of one section) and gives the logits, (vocab,)."""
        for step in plan.steps:
            if section not in (None, step.section):
                continue
            inputs, numbers = self.given(plan, step)
            for name, value in contracts.get(step.op).reference(inputs, numbers, self.dtype).items():
                self.write(plan, step.outputs[name], value)
        return self.read(plan, plan.logits).reshape(-1)
