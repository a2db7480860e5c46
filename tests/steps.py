"""Captured steps and small graphs for the compiler's tests. Capturing takes a second: each step is made once."""

import functools
import warnings

import torch

from pytest_webgpu.compiler.capture import Captured, capture
from pytest_webgpu.compiler.fuse import fuse
from pytest_webgpu.compiler.graph import Role, is_op
from pytest_webgpu.compiler.load import Weights
from pytest_webgpu.compiler.oracle import Memory
from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu.job import DeviceInfo
from pytest_webgpu.gpu.limits import DEFAULT_LIMITS
from pytest_webgpu.qwen2.config import Model, find_model

CAPACITY = 64


def device(features=(), **limits: int) -> DeviceInfo:
    changed = {name.replace("_", "-"): value for name, value in limits.items()}
    return DeviceInfo("none", "0", "none", "none", "", "", True, tuple(features), {**DEFAULT_LIMITS, **changed})


def deeper(layers: int, **changes) -> Model:
    """tiny with other numbers."""
    tiny = find_model("tiny")
    return Model("tiny", {**tiny.config, "num_hidden_layers": layers, **changes})


@functools.cache
def step(tokens: int, layers: int = 2, fold: bool = True, **changes) -> Captured:
    bare, constants = deeper(layers, **changes).on_meta()
    return capture(bare, tokens, CAPACITY, constants, fold)


class _Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def small(function, **shapes: tuple[int, ...]) -> Captured:
    """The graph of a function of weights of these shapes, which gives logits (1, vocab)."""
    tensors = [torch.zeros(shape) for shape in shapes.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.export's own
        program = torch.export.export(_Function(function), tuple(tensors), strict=False).run_decompositions({})
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    for node, name in zip(placeholders, shapes, strict=True):
        node.meta["role"] = Role("weight", name)
    return Captured(program.graph, 1, CAPACITY, ("logits",))


def ops(captured: Captured, fusions="all", **how) -> list[str]:
    """The contracts that a step becomes, in order, without the choice of the token."""
    lowered, _ = fuse(captured, fusions, **how)
    return [n.target.name for n in lowered.graph.nodes if is_op(n)][:-1]


def continued(plans: dict[int, Plan], weights: Weights, prompt: list[int], new_tokens: int):
    """A prompt of at most 16 tokens and what follows, by the contracts: tokens, and float64 logits (tokens, vocab)."""
    memory, chunk = Memory(weights), plans[16]
    memory.set(chunk, {
        "position": [len(prompt) - 1], "step16.ids": prompt + [0] * (16 - len(prompt)), "step16.positions": range(16),
        "step16.last": [len(prompt) - 1],
    })  # fmt: skip
    logits = [memory.run(chunk), *(memory.run(plans[1]) for _ in range(new_tokens - 1))]
    return memory.tensor(chunk, "log")[len(prompt) :][:new_tokens].tolist(), torch.stack(logits).numpy()
