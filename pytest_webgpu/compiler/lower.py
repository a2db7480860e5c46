"""From ATen operations to contracts: each call becomes one op on contiguous tensors, and views cost nothing.

A view (reshape, transpose, slice, expand) is followed as sizes, strides and an offset over the tensor below it.
Where an op needs it and it is not contiguous, a `copy` op makes it so.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from pytest_webgpu.compiler.capture import Captured
from pytest_webgpu.compiler.errors import Unsupported, where
from pytest_webgpu.compiler.graph import Role, aten, cut, emit, output_of, reshape, role_of, shape_of
from pytest_webgpu.compiler.matcher import Match
from pytest_webgpu.compiler.positions import Positional

ALIGN = 64  # elements of 4 bytes: WebGPU binds at multiples of 256 bytes
CACHE_ALIGN = 128  # elements of a cache, which may be of 2 bytes

VIEWS = (
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.transpose.int, aten.permute.default,
    aten.unsqueeze.default, aten.squeeze.dim, aten.select.int, aten.slice.Tensor, aten.expand.default, aten.t.default,
)  # fmt: skip
IDENTITIES = (aten.clone.default, aten.contiguous.default, aten._to_copy.default, aten.to.dtype)


@dataclass(frozen=True)
class Value:
    """A tensor as `view` (a meta tensor: sizes, strides, offset) of the contiguous tensor that `base` gives."""

    base: fx.Node
    view: Tensor


@dataclass
class Lowered:
    """A graph of contracts. Placeholders have roles; `logits` is the node that gives them, of a step of a decoder."""

    graph: fx.Graph
    tokens: int
    capacity: int
    logits: fx.Node | None

    @property
    def results(self) -> tuple[fx.Node, ...]:
        """What is to be kept to the end: the logits, or all that the graph gives."""
        if self.logits is not None:
            return (self.logits,)
        return tuple(next(n for n in self.graph.nodes if n.op == "output").args[0])


Rule = Callable[["Lowering", fx.Node], Value]
Composite = Callable[["Lowering", Match], Value]


class Lowering:
    """One lowering under way. `composites`: root of a match -> what builds it; inner nodes are never asked for."""

    def __init__(self, captured: Captured, rules: Mapping[Any, Rule], gqa: bool) -> None:
        self.captured, self.rules, self.gqa = captured, rules, gqa
        self.positional = Positional(captured.graph, captured.tokens, captured.capacity)
        self.graph = fx.Graph()
        self.values: dict[fx.Node, Value] = {}
        self.placeholders: dict[str, fx.Node] = {}
        self.parts: dict[tuple[Any, ...], fx.Node] = {}
        self.at: fx.Node | None = None  # the old node whose lowering is under way

    def emit(self, name: str, **arguments: Any) -> fx.Node:
        return emit(self.graph, name, arguments, like=self.at)

    def placeholder(self, role: Role, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> fx.Node:
        """The placeholder of that role's name, made at its first use."""
        if role.name not in self.placeholders:
            first = next(iter(self.graph.nodes), None)
            with self.graph.inserting_before(first):
                node = self.graph.placeholder(role.name.replace(".", "_"))
            node.meta.update(role=role, val=torch.empty(tuple(shape), dtype=dtype, device="meta"))
            self.placeholders[role.name] = node
        return self.placeholders[role.name]

    def constant(self, name: str, value: Tensor) -> fx.Node:
        """A table that the host computed; equal tables are one, whichever plan needs them."""
        digest = hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()[:12]
        return self.placeholder(Role("constant", f"{name}.{digest}", value.contiguous()), value.shape)

    @property
    def start(self) -> fx.Node:
        """The step's positions; element 0 is where it starts."""
        decode = self.captured.tokens == 1
        role = Role("state", "position") if decode else Role("input", "positions")
        return self.placeholder(role, (self.captured.tokens,), torch.int64)

    def value(self, node: fx.Node) -> Value:
        """The lowered value of a captured node."""
        if node not in self.values:
            self.values[node] = self._leaf(node)
        return self.values[node]

    def _leaf(self, node: fx.Node) -> Value:
        role, tokens = role_of(node), self.captured.tokens
        if node in self.positional.nodes and node.op == "call_function":
            if node.target in (*VIEWS, *IDENTITIES):
                return self._lower(node)
            table = self.constant("table", self.positional.table(node))
            return whole(self.emit("embedding", ids=self.start, weight=table), shape_of(node))
        if role is None:
            raise Unsupported(f"the value of {node.name} was not lowered: {where(node)}")
        if role.name == "positions":
            return whole(self.start)
        if role.kind == "cache":
            return self._cache(role, shape_of(node))
        if role.kind == "input":
            decode_ids = role.name == "ids" and tokens == 1
            role = Role("state", "token") if decode_ids else Role("input", role.name)
            ints = not node.meta["val"].dtype.is_floating_point
            return whole(self.placeholder(role, shape_of(node), torch.int64 if ints else torch.float32))
        return whole(self.placeholder(role, shape_of(node)))

    def _cache(self, role: Role, shape: Sequence[int]) -> Value:
        """K and V of a layer lie one behind the other in one cache: an op that fills both needs one binding."""
        both = self.placeholder(Role("cache", f"kv_{role.layer}", layer=role.layer), (2, *shape))
        half = torch.Size(shape).numel()
        if half % CACHE_ALIGN:
            raise Unsupported(f"a cache of {tuple(shape)}: make it a multiple of {CACHE_ALIGN} elements")
        return Value(both, whole(both).view["kv".index(role.name[0])])

    def tensor(self, node: fx.Node | Value, shape: Sequence[int] | None = None) -> fx.Node:
        """The value as a contiguous tensor of that shape: reshaped, cut out, or copied."""
        value = node if isinstance(node, Value) else self.value(node)
        view = value.view
        wanted = tuple(view.shape) if shape is None else tuple(shape)
        if not view.is_contiguous():
            return reshape(self.graph, self._copy(value), wanted)
        if view.numel() == value.base.meta["val"].numel():
            return reshape(self.graph, value.base, wanted)
        if view.storage_offset() % ALIGN:
            return reshape(self.graph, self._copy(value), wanted)
        key = (value.base, view.storage_offset(), wanted)
        if key not in self.parts:
            early = value.base.op == "placeholder"  # so that every later rewrite may use it anywhere
            with self.graph.inserting_after(value.base) if early else contextlib.nullcontext():
                self.parts[key] = cut(self.graph, *key)
        return self.parts[key]

    def _copy(self, value: Value) -> fx.Node:
        sizes, strides = four(*coalesce(value.view))
        extents = {f"d{i}": s for i, s in enumerate(sizes)} | {f"s{i}": s for i, s in enumerate(strides)}
        return self.emit("copy", x=self.flat(value.base), **extents, offset=value.view.storage_offset())

    def flat(self, node: fx.Node) -> fx.Node:
        return reshape(self.graph, node, (node.meta["val"].numel(),))

    def strided(self, name: str, value: Value, shape: Sequence[int]) -> dict[str, Any]:
        """What an op that reads a view takes for it: the memory below as `name`, its offset, four strides."""
        view = value.view.expand(tuple(shape))
        _, strides = four(list(view.shape), list(view.stride()))
        numbers = {f"{name}{i}": s for i, s in enumerate(strides)}
        return {name: self.flat(value.base), f"{name}_offset": view.storage_offset(), **numbers}

    def view(self, value: Value, change: Callable[[Tensor], Tensor]) -> Value:
        """`change` applied to a value's sizes and strides, over a copy where they do not allow it."""
        try:
            return replace(value, view=change(value.view))
        except RuntimeError:  # torch refuses to view incompatible strides
            return self.view(whole(self.tensor(value), tuple(value.view.shape)), change)

    def run(self, composites: Mapping[fx.Node, tuple[Composite, Match]]) -> Lowered:
        inner = {n for _, m in composites.values() for n in m.inner if n is not m.root}
        outputs: dict[str, fx.Node] = {}
        for node in self.captured.graph.nodes:
            self.at = node
            if node.op == "output":
                for name, given in zip(self.captured.outputs, node.args[0], strict=True):
                    outputs[name] = self.tensor(given)
            elif node.op != "call_function" or node in inner or node in self.positional.nodes:
                continue
            elif node in composites:
                build, found = composites[node]
                self.values[node] = build(self, found)
            else:
                self.values[node] = self._lower(node)
        return self._finish(outputs)

    def _lower(self, node: fx.Node) -> Value:
        target = node.target
        if target in IDENTITIES:
            return self.value(node.args[0])
        if target in VIEWS:
            return self.view(self.value(node.args[0]), lambda t: target(t, *node.args[1:]))
        if target not in self.rules:
            raise Unsupported(f"no op here computes {target}: {where(node)}")
        return self.rules[target](self, node)

    def _finish(self, outputs: dict[str, fx.Node]) -> Lowered:
        """A decoder chooses the token and moves on, on the device: token, position and log are state of the plan."""
        self.at = None
        capacity = self.captured.capacity
        if "logits" not in outputs:
            self.graph.output(tuple(outputs.values()))
            self.graph.eliminate_dead_code()
            return Lowered(self.graph, self.captured.tokens, capacity, None)
        state = {"token": 1, "position": 1, "log": capacity}
        held = {n: self.placeholder(Role("state", n), (size,), torch.int64) for n, size in state.items()}
        logits = outputs.pop("logits")
        chosen = self.emit("argmax+advance", logits=logits, **held)
        written = [output_of(self.graph, chosen, i) for i in range(len(held))]
        self.graph.output((*outputs.values(), *written))
        self.graph.eliminate_dead_code()
        return Lowered(self.graph, self.captured.tokens, capacity, logits)


def whole(base: fx.Node, shape: Sequence[int] | None = None) -> Value:
    """All of a contiguous tensor, in that shape."""
    return Value(base, torch.empty(tuple(shape or shape_of(base)), device="meta"))


def four(sizes: list[int], strides: list[int]) -> tuple[list[int], list[int]]:
    """Sizes and strides of exactly four dims, with dims of one element in front."""
    if len(sizes) > 4:
        raise Unsupported(f"a view of {len(sizes)} dims {sizes}: the ops that read views have four")
    return [1] * (4 - len(sizes)) + sizes, [0] * (4 - len(strides)) + strides


def coalesce(view: Tensor) -> tuple[list[int], list[int]]:
    """Sizes and strides with dims of one element left out and dims that lie in a row merged."""
    sizes: list[int] = []
    strides: list[int] = []
    for size, stride in zip(view.shape, view.stride(), strict=True):
        if size == 1:
            continue
        if sizes and strides[-1] == stride * size:
            sizes[-1], strides[-1] = sizes[-1] * size, stride
        else:
            sizes.append(size)
            strides.append(stride)
    return sizes or [1], strides or [1]


