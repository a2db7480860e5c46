"""torch.compile(model, backend="webgpu"): dynamo's graph becomes a plan, and each call of it a job on the adapter.

For inference at static shapes (`dynamic=False`). Weights are uploaded at the first call, and again when they changed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from pytest_webgpu import resources
from pytest_webgpu.compiler.build import build
from pytest_webgpu.compiler.capture import Captured, clean, layer_of
from pytest_webgpu.compiler.choose import Chooser
from pytest_webgpu.compiler.errors import Unsupported
from pytest_webgpu.compiler.graph import Role
from pytest_webgpu.compiler.load import Session
from pytest_webgpu.compiler.plan import Plan, Ref
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import Job, ReadBuffer, Runner, RunProgram, WriteBuffer
from pytest_webgpu.kernels.library import Library


def webgpu(module: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """What torch.compile calls a backend. The adapter is the best one, or what PYTEST_WEBGPU_BACKEND,
    PYTEST_WEBGPU_IMPLEMENTATION and PYTEST_WEBGPU_ADAPTER name.

    Raises Unsupported (with the model's line) for what no contract computes, for dynamic shapes, and for a graph that
    writes into its inputs; NoAdapter.
    """
    return compile_on(runner(), module, examples)


def compile_on(runner: Runner, module: fx.GraphModule, examples: Sequence[Any]) -> Compiled:
    """The same on a runner that is there already."""
    captured, given = _captured(module, examples)
    matrices = [p for p in examples if isinstance(p, nn.Parameter) and p.dim() == 2]
    dtype = "f16" if matrices and all(p.dtype == torch.float16 for p in matrices) else "f32"
    plan = build(captured, Chooser(Library(resources.folder("wgsl")), runner.info, dtype))
    return Compiled(plan, runner, given, _values(captured.graph))


@cache
def runner() -> Runner:
    """The one that every compiled model of this process runs on."""
    named = {name: os.environ.get(f"PYTEST_WEBGPU_{name.upper()}") for name in ("backend", "implementation", "adapter")}
    adapter = choose(named["backend"] or "auto", named["implementation"] or "wgpu-native", named["adapter"])
    return open_runner(adapter, limits="max")


class Compiled:
    """A plan that takes and gives torch's tensors. `given`: the role of each argument, in order; `results`: of the
    graph as torch captured it, with their shapes and dtypes."""

    def __init__(self, plan: Plan, runner: Runner, given: Sequence[Role], results: Sequence[Tensor]) -> None:
        self.plan, self.runner, self.given, self.results = plan, runner, given, results
        self.session: Session | None = None
        self.uploaded: list[tuple[int, int]] = []

    def close(self) -> None:
        """Gives back what it holds on the device."""
        if self.session is not None:
            self.session.close()
            self.session = None

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        weights = {r.name: a for r, a in zip(self.given, arguments, strict=True) if r.kind == "weight"}
        session = self._loaded(weights)
        writes = [
            WriteBuffer(session.name(self.plan_name(role)), _bytes(argument))
            for role, argument in zip(self.given, arguments, strict=True)
            if role.kind == "input" and self.plan_name(role) in self.plan.buffers
        ]
        positions = f"step{self.plan.tokens}.positions"
        if positions in self.plan.buffers:
            writes.append(WriteBuffer(session.name(positions), np.arange(self.plan.tokens, dtype=np.int32).tobytes()))
        reads = [ReadBuffer(session.name(r.buffer), 4 * r.offset, 4 * int(np.prod(r.shape))) for r in self.plan.results]
        run = RunProgram(session.program(self.plan, "body"))
        done = self.runner.run(Job((*writes, *([run] if self.plan.steps else []), *reads)), 600)
        blobs = [done.blob(i - len(reads)) for i in range(len(reads))]
        return tuple(map(_tensor, blobs, self.plan.results, self.results))

    def plan_name(self, role: Role) -> str:
        return f"step{self.plan.tokens}.{role.name}"

    def _loaded(self, weights: dict[str, Tensor]) -> Session:
        now = [(w.data_ptr(), w._version) for w in weights.values()]
        if self.session is None or now != self.uploaded:
            self.close()
            self.session, self.uploaded = Session(self.runner, _Given(weights)), now
        self.session.load(self.plan)
        return self.session


class _Given:
    """The model's own parameters as the weights of a session."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.weights[name].shape)

    def read(self, name: str, first: int, count: int) -> NDArray[Any]:
        rows = self.weights[name].detach()[first : first + count].cpu()
        array: NDArray[Any] = (rows if rows.dtype == torch.float16 else rows.float()).numpy()
        return array


def _captured(module: fx.GraphModule, examples: Sequence[Any]) -> tuple[Captured, list[Role]]:
    """The graph with a role for each placeholder, and the roles of the arguments in their order."""
    if not all(isinstance(e, Tensor) for e in examples):
        raise Unsupported("dynamic shapes: say torch.compile(model, backend=\"webgpu\", dynamic=False)")
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", FutureWarning)  # torch.export's own, about its pytrees
        program = torch.export.export(module, tuple(examples), strict=False).run_decompositions(decomp_table={})
    graph, signature = program.graph, program.graph_signature
    if written := [o.target for o in signature.output_specs if "MUTATION" in o.kind.name]:
        raise Unsupported(f"the graph writes into its input {written[0]}: compile a function that returns it")
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    given: list[Role] = []
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind.name == "USER_INPUT":
            given.append(_role(len(given), names[len(given)], examples[len(given)]))
            node.meta["role"] = given[-1]
        else:
            value = program.state_dict.get(spec.target, program.constants.get(spec.target))
            node.meta["role"] = Role("constant", node.name, value)
    for node in graph.nodes:
        if node.op == "call_function" and (layer := layer_of(node)) is not None:
            node.meta["layer"] = layer
    clean(graph)
    sequences = [e.shape[1] for e in examples if not e.is_floating_point() and e.dim() == 2 and e.shape[0] == 1]
    tokens = sequences[0] if sequences else 1
    count = len(next(n for n in graph.nodes if n.op == "output").args[0])
    return Captured(graph, tokens, tokens, tuple(f"result{i}" for i in range(count))), given


def _role(index: int, name: str, example: Tensor) -> Role:
    """Parameters are weights, and buffers (a model's frequencies) constants: the values that they have now."""
    if isinstance(example, nn.Parameter):
        return Role("weight", f"weight{index}")
    if "_buffers_" in name:
        return Role("constant", f"constant{index}", example.detach().cpu())
    return Role("input", f"input{index}")


def _values(graph: fx.Graph) -> list[Tensor]:
    return [n.meta["val"] for n in next(n for n in graph.nodes if n.op == "output").args[0]]


def _bytes(argument: Tensor) -> bytes:
    wanted = torch.float32 if argument.is_floating_point() else torch.int32
    array: NDArray[Any] = argument.detach().to("cpu", wanted).contiguous().numpy()
    return array.tobytes()


def _tensor(blob: Any, ref: Ref, like: Tensor) -> Tensor:
    return torch.from_numpy(np.frombuffer(blob, np.float32).copy()).reshape(like.shape).to(like.dtype)
