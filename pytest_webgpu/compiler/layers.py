"""A stack of equal layers, captured twice and repeated: export takes seconds a layer, and 24 layers say no more."""

from __future__ import annotations

import re
from typing import Any

from torch import fx, nn

from pytest_webgpu.compiler.errors import CompilerError
from pytest_webgpu.compiler.graph import Role, role_of


def alike(layers: nn.ModuleList) -> bool:
    """Whether all layers have the same modules, parameter shapes and plain attributes but for their index.

    A layer that differs by an attribute alone (no rotary positions, a sliding window) is told from the others.
    """

    def describe(layer: nn.Module) -> list[Any]:
        told: list[Any] = []
        for name, module in layer.named_modules():
            plain = {
                k: v
                for k, v in vars(module).items()
                if isinstance(v, int | float | str | bool | tuple | None) and k != "layer_idx"
            }
            shapes = {n: tuple(p.shape) for n, p in module.named_parameters(recurse=False)}
            told.append((name, type(module), plain, shapes))
        return told

    first, *others = [describe(layer) for layer in layers]
    return all(other == first for other in others)


def repeat(graph: fx.Graph, outputs: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Turns a graph of two layers into one of `count`, by copies of the second. Gives the names of its outputs.

    Raises CompilerError where the second layer is not the first one over again.
    """
    first, second = ([n for n in graph.nodes if n.meta.get("layer") == i] for i in (0, 1))
    entry0, _ = _boundary(graph, first)
    entry1, exit1 = _boundary(graph, second)
    _check_equal(first, second, {entry0: entry1})
    own = [n for n in graph.nodes if (role := role_of(n)) is not None and role.layer == 1]
    tail = [n for n in graph.nodes if n.meta.get("layer") is None and exit1 in n.all_input_nodes]
    last_placeholder = [n for n in graph.nodes if n.op == "placeholder"][-1]
    result = next(n for n in graph.nodes if n.op == "output")
    values = dict(zip(outputs, result.args[0], strict=True))
    previous, place = exit1, second[-1]
    for layer in range(2, count):
        copies: dict[fx.Node, fx.Node] = {entry1: previous}
        with graph.inserting_after(last_placeholder):
            for node in reversed(own):
                role = node.meta["role"]
                copy = graph.placeholder(_of_layer(node.name, layer, sep="_"))
                copy.meta.update(node.meta, role=_moved(role, layer))
                copies[node] = copy
        for node in second:
            with graph.inserting_after(place):
                place = graph.node_copy(node, lambda n, copies=copies: copies.get(n, n))
            place.meta.update(node.meta, layer=layer)
            copies[node] = place
        for node in own:
            if (name := node.meta["role"].name) in values:
                values[copies[node].meta["role"].name] = copies[values[name]]
        previous = copies[exit1]
    for node in tail:
        node.replace_input_with(exit1, previous)
    logits = values.pop("logits")
    ordered = sorted(values, key=lambda name: (name[0], int(name[2:])))
    result.args = ((*(values[n] for n in ordered), logits),)
    return (*ordered, "logits")


def _boundary(graph: fx.Graph, layer: list[fx.Node]) -> tuple[fx.Node, fx.Node]:
    """The hidden state that enters a layer, and the one that leaves it."""
    inside = set(layer)
    leaving = [n for n in layer if any(u not in inside and u.op != "output" for u in n.users)]
    if len(leaving) != 1:
        raise CompilerError(f"a layer hands on {len(leaving)} values, not one: capture with fold=False")
    outside = {a for n in layer for a in n.all_input_nodes if a not in inside and a.op != "placeholder"}
    carried = [a for a in outside if _reads_weight(a)]
    if len(carried) != 1:
        raise CompilerError(f"a layer takes {len(carried)} hidden states, not one: capture with fold=False")
    return carried[0], leaving[0]


def _reads_weight(node: fx.Node) -> bool:
    """Whether a value depends on a weight (the embedding), as tables of positions do not."""
    seen, open_ = {node}, [node]
    while open_:
        current = open_.pop()
        role = role_of(current)
        if role is not None and role.kind == "weight":
            return True
        new = [a for a in current.all_input_nodes if a not in seen]
        seen.update(new)
        open_ += new
    return False


def _check_equal(first: list[fx.Node], second: list[fx.Node], same: dict[fx.Node, fx.Node]) -> None:
    def moved(node: fx.Node) -> Any:
        role = role_of(node)
        if role is not None:
            return _moved(role, 1).name if role.layer == 0 else role.name
        return same.get(node, node)

    def named(node: fx.Node) -> Any:
        role = role_of(node)
        return role.name if role is not None else node

    if len(first) != len(second):
        raise CompilerError(f"layer 0 has {len(first)} operations and layer 1 {len(second)}: capture with fold=False")
    for a, b in zip(first, second, strict=True):
        left = (a.target, fx.node.map_arg((a.args, dict(a.kwargs)), moved))
        right = (b.target, fx.node.map_arg((b.args, dict(b.kwargs)), named))
        if left != right:
            raise CompilerError(f"layers 0 and 1 differ at {a.name} and {b.name}: capture with fold=False")
        same[a] = b


def _of_layer(name: str, layer: int, sep: str) -> str:
    """`name` with the index of its layer replaced: layers.1.x or k_1."""
    pattern = rf"(layers{re.escape(sep)}|^[kv]_)\d+"
    return re.sub(pattern, lambda m: f"{m[1]}{layer}", name, count=1)


def _moved(role: Role, layer: int) -> Role:
    return Role(role.kind, _of_layer(role.name, layer, "."), role.value, layer)
