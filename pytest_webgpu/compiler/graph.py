"""The graph that the compiler rewrites: torch.fx nodes that call ATen operations or, once lowered, contracts."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, fx

from pytest_webgpu.ops import contract as contracts

Kind = Literal["weight", "constant", "input", "cache", "state"]
aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Role:
    """What a placeholder is. `name`: a weight's name in the checkpoint, an input's or a cache's own.

    `value`: a constant's tensor. `layer`: the index of the layer that it belongs to, if to one. `parts`: of a weight
    that lies joined by rows, the names in the checkpoint and their rows.
    """

    kind: Kind
    name: str
    value: Tensor | None = None
    layer: int | None = None
    parts: tuple[tuple[str, int], ...] = ()


class OpTarget:
    """Target of an fx node that calls a contract; every argument is a keyword. One object a name: see `op_target`."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    def __repr__(self) -> str:
        return f"op({self.name!r})"

    def __call__(self, **arguments: Any) -> Any:
        return contracts.get(self.name).fn(**arguments)


@cache
def op_target(name: str) -> OpTarget:
    return OpTarget(name)


def part(x: Tensor, offset: int, shape: Sequence[int]) -> Tensor:
    """`shape` elements of contiguous x from `offset` (elements) on: a binding with an offset, no dispatch."""
    return x.reshape(-1)[offset:].narrow(0, 0, torch.Size(shape).numel()).reshape(tuple(shape))


ALIASES = (aten.view.default, part, operator.getitem)  # nodes of a lowered graph that compute nothing


def shape_of(node: fx.Node) -> tuple[int, ...]:
    """The static shape of a node's value (several outputs: of the first)."""
    value = node.meta["val"]
    return tuple(int(s) for s in (value[0] if isinstance(value, tuple | list) else value).shape)


def role_of(node: Any) -> Role | None:
    return node.meta.get("role") if isinstance(node, fx.Node) and node.op == "placeholder" else None


def source(node: fx.Node) -> fx.Node:
    """The node under reshapes."""
    while node.op == "call_function" and node.target is aten.view.default:
        node = node.args[0]
    return node


def carrier(node: fx.Node) -> fx.Node:
    """The node whose memory a value lies in: under views and parts, and before writes in place."""
    while node.op == "call_function":
        if isinstance(node.target, OpTarget):
            written = contracts.get(node.target.name).outputs[0]
            if not written.inplace or isinstance(node.meta["val"], tuple):
                break
            node = node.kwargs[written.name]
        elif node.target is operator.getitem:
            call, index = node.args
            written = contracts.get(call.target.name).outputs[index]
            if not written.inplace:
                break
            node = call.kwargs[written.name]
        else:
            node = node.args[0]
    return node


def users(node: fx.Node) -> Iterator[fx.Node]:
    """The users of a value, through reshapes of it."""
    for user in node.users:
        if user.op == "call_function" and user.target is aten.view.default:
            yield from users(user)
        else:
            yield user


def is_op(node: Any, *names: str) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.target, OpTarget) and (not names or node.target.name in names)


def emit(graph: fx.Graph, name: str, arguments: Mapping[str, Any], like: fx.Node | None = None) -> fx.Node:
    """Appends (at the graph's insertion point) a call of the contract `name`, with its dims and the shapes of its
    outputs. `like`: the node whose place in the model it takes."""
    given = {k: v for k, v in arguments.items() if v is not None}
    node = graph.call_function(op_target(name), (), given)
    contract = contracts.get(name)
    tensors = {a.name for a in contract.args}
    numbers = {k: v for k, v in given.items() if not isinstance(v, fx.Node)}
    dims = contract.infer({k: shape_of(v) for k, v in given.items() if k in tensors}, numbers)
    defaults = {s.name: s.default for s in contract.scalars if s.default is not None}
    shapes = contract.shapes(dims, {**defaults, **numbers})
    values = [torch.empty(shapes[o.name], device="meta") for o in contract.outputs]
    node.meta.update(dims=dims, val=values[0] if len(values) == 1 else tuple(values))
    if like is not None:
        node.meta.update({k: like.meta[k] for k in ("stack_trace", "layer") if k in like.meta})
    return node


def reshape(graph: fx.Graph, node: fx.Node, shape: Sequence[int]) -> fx.Node:
    """`node` itself where it has that shape, or one reshape of what lies under its reshapes."""
    shape = tuple(shape)
    if shape_of(node) == shape:
        return node
    base = source(node)
    if shape_of(base) == shape:
        return base
    view = graph.call_function(aten.view.default, (base, list(shape)))
    view.meta["val"] = torch.empty(shape, device="meta")
    return view


def cut(graph: fx.Graph, node: fx.Node, offset: int, shape: Sequence[int]) -> fx.Node:
    """A `part` of a node."""
    piece = graph.call_function(part, (node, offset, list(shape)))
    piece.meta["val"] = torch.empty(tuple(shape), device="meta")
    return piece


def output_of(graph: fx.Graph, node: fx.Node, index: int) -> fx.Node:
    """Output `index` of a call with several outputs."""
    item = graph.call_function(operator.getitem, (node, index))
    item.meta["val"] = node.meta["val"][index]
    return item

