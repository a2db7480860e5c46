"""One step of a decoder as a graph of ATen operations with static shapes.

A step takes `tokens` ids at `positions` (start, start + 1, ...), and the K and V caches, (kv_heads, capacity,
head_dim) each; it writes the caches and gives the logits of one row: the only one, or row `last` of a prefill
chunk. Rows after `last` compute garbage at later positions, which causal attention never reads.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from pytest_webgpu.compiler.errors import CompilerError, Unsupported
from pytest_webgpu.compiler.graph import Role, aten, role_of
from pytest_webgpu.compiler.layers import alike, repeat

NO_OPS = (aten.dropout.default, aten.alias.default, aten.lift_fresh_copy.default, aten.detach.default)
LAYER = re.compile(r"\.layers\.(\d+)(?:\.|$)")


@dataclass
class Captured:
    """`outputs` names what the graph gives, in order: a cache after the step by its name, and "logits"."""

    graph: fx.Graph
    tokens: int
    capacity: int
    outputs: tuple[str, ...]


class _Cache:
    """What a model of transformers asks of a cache, kept in tensors that are inputs of the graph."""

    is_compileable = True
    is_sliding: tuple[bool, ...] = ()

    def __init__(self, k: list[Tensor], v: list[Tensor], positions: Tensor) -> None:
        self.k, self.v, self.positions = k, v, positions

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        k, v = self.k[layer_idx], self.v[layer_idx]
        k.index_copy_(1, self.positions, key[0])
        v.index_copy_(1, self.positions, value[0])
        return k[None], v[None]

    def get_query_offset(self, layer_idx: int = 0) -> Tensor:
        return self.positions[0]

    def get_seq_length(self, layer_idx: int = 0) -> Tensor:
        return self.positions[0]

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.k[0].shape[1], 0


class _Step(nn.Module):  # type: ignore[misc]
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        named = inspect.signature(model.model.forward).parameters
        self.cache_name = "cache" if "cache" in named else "past_key_values"

    def forward(self, ids: Tensor, positions: Tensor, last: Tensor, k: list[Tensor], v: list[Tensor]) -> Tensor:
        cache = {self.cache_name: _Cache(k, v, positions)}
        keep = last if ids.shape[0] > 1 else 0
        result = self.model(
            input_ids=ids[None], position_ids=positions[None], use_cache=True, logits_to_keep=keep, **cache
        )
        logits: Tensor = result.logits
        return logits[0]


def capture(
    model: nn.Module, tokens: int, capacity: int, constants: Mapping[str, Tensor] | None = None, fold: bool = True
) -> Captured:
    """One step of `model` (a causal language model of transformers, on meta or CPU, sdpa attention).

    `constants`: values of buffers that lie on meta. With `fold`, two layers are captured and repeated where all
    layers are alike. Raises Unsupported where the model cannot be exported.
    """
    config = model.config
    layers = model.model.layers
    count = len(layers)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if not 1 <= tokens <= capacity:
        raise CompilerError(f"a step of {tokens} tokens does not fit a cache of {capacity}")
    folded = fold and count > 2 and alike(layers)
    kept = 2 if folded else count
    device = next(model.parameters()).device

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    ids = empty(tokens, dtype=torch.int64)
    caches = [[empty(config.num_key_value_heads, capacity, head_dim) for _ in range(kept)] for _ in range(2)]
    with _truncated(model.model, kept), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.export's own, about its pytrees
        step = _Step(model).eval()
        try:
            program = torch.export.export(
                step, (ids, empty(tokens, dtype=torch.int64), empty(1, dtype=torch.int64), *caches), strict=False
            ).run_decompositions(decomp_table={})
        except Exception as error:
            raise Unsupported(f"torch.export of {type(model).__name__} failed: {error}") from error
        graph = program.graph
        _assign_roles(program, model, constants or {})
    clean(graph)
    outputs = [o.target if "MUTATION" in o.kind.name else "logits" for o in program.graph_signature.output_specs]
    captured = Captured(graph, tokens, capacity, tuple(outputs))
    if folded:
        captured.outputs = repeat(graph, captured.outputs, count)
    return captured


@contextlib.contextmanager
def _truncated(decoder: nn.Module, count: int) -> Iterator[None]:
    whole = decoder.layers
    decoder.layers = nn.ModuleList(list(whole)[:count])
    try:
        yield
    finally:
        decoder.layers = whole


def _layer(name: str) -> int | None:
    found = LAYER.search(name)
    return int(found[1]) if found else None


def _assign_roles(program: Any, model: nn.Module, constants: Mapping[str, Tensor]) -> None:
    """Says of each placeholder what it is, and of each call in which layer it stands."""
    names = {id(p): n for n, p in reversed(list(model.named_parameters(remove_duplicate=False)))}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers(remove_duplicate=False))
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        node, target = placeholders[spec.arg.name], (spec.target or "").removeprefix("model.")
        kind = spec.kind.name
        if kind == "PARAMETER":
            name = names[id(parameters[target])]
            role = Role("weight", name, layer=_layer(f".{name}"))
        elif kind == "USER_INPUT":
            cache = re.fullmatch(r"[kv]_(\d+)", node.name)
            role = Role("cache", node.name, layer=int(cache[1])) if cache else Role("input", node.name)
        else:
            value = constants.get(target, buffers.get(target, program.constants.get(spec.target)))
            if value is None or (value.is_meta and node.users):
                raise CompilerError(f"the buffer {target} lies on meta: give its value in `constants`")
            role = Role("constant", target, None if value.is_meta else value.detach().cpu())
        node.meta["role"] = role
    for node in program.graph.nodes:
        if node.op == "call_function" and (layer := layer_of(node)) is not None:
            node.meta["layer"] = layer


def layer_of(node: fx.Node) -> int | None:
    """The index of the innermost layer that the call stands in."""
    stack = node.meta.get("nn_module_stack") or {}
    found = [layer for name, _ in stack.values() if (layer := _layer(f".{name}")) is not None]
    return found[-1] if found else None


def clean(graph: fx.Graph) -> None:
    """Takes out what checks or copies nothing, and placeholders that nothing reads."""
    for node in list(graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            graph.erase_node(node)
        elif node.target in NO_OPS:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        role = role_of(node)
        if role is not None and role.kind in ("constant", "weight") and not node.users:
            graph.erase_node(node)
