"""Patterns over torch.fx graphs: a tree of calls with named holes, commutative operands, casts looked through.

    norm = Call(MUL, X("weight"), Call(MUL, X("x"), Call(RSQRT, ...), commutative=True), commutative=True)
    match(node, norm)

A match is refused when something outside it reads an inner node: the value would be needed all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import fx

from pytest_webgpu.compiler.graph import aten, is_op, source, users

CASTS = (aten._to_copy.default, aten.to.dtype)


@dataclass(frozen=True)
class X:
    """A hole: binds a value or constant to `name`. A hole that stands twice must be filled twice by the same."""

    name: str
    accept: Callable[[Any], bool] = lambda _: True


class Call:
    """A call of one of `targets` (ATen operations, or names of contracts, whose arguments are keywords).

    Trailing arguments that the pattern does not give are not looked at; `exact=True` demands that there are none.
    """

    def __init__(
        self, targets: Any, *args: Any, commutative: bool = False, exact: bool = False, bind: str = "", **kwargs: Any
    ) -> None:
        self.targets = targets if isinstance(targets, tuple) else (targets,)
        self.args, self.kwargs = args, kwargs
        self.commutative, self.exact, self.bind = commutative, exact, bind


Pattern: TypeAlias = "X | Call | Any"


@dataclass
class Match:
    """`root` is the node that the pattern's top matched, `inner` what lies between it and the holes."""

    root: fx.Node
    bound: dict[str, Any] = field(default_factory=dict)
    inner: set[fx.Node] = field(default_factory=set)

    def __getitem__(self, name: str) -> Any:
        return self.bound[name]


def match(node: fx.Node, pattern: Call) -> Match | None:
    """How `pattern` fits at `node`, or None. Inner nodes have no users outside the match."""
    for found in _alternatives(node, pattern, Match(node)):
        if all(user in found.inner for n in found.inner if n is not node for user in _readers(n)):
            return found
    return None


def _readers(node: fx.Node) -> list[fx.Node]:
    """Users of a value, seen through casts and reshapes."""
    readers: list[fx.Node] = []
    for user in users(node):
        readers += _readers(user) if user.target in CASTS else [user]
    return readers


def _alternatives(value: Any, pattern: Pattern, so_far: Match) -> list[Match]:
    """Every way in which the pattern fits the value, each extending `so_far`."""
    if isinstance(pattern, X):
        if not pattern.accept(value):
            return []
        if pattern.name in so_far.bound:
            return [so_far] if _same(so_far.bound[pattern.name], value) else []
        return [Match(so_far.root, {**so_far.bound, pattern.name: value}, so_far.inner)]
    if isinstance(pattern, list):
        if not isinstance(value, list | tuple) or len(value) != len(pattern):
            return []
        return _each(list(zip(value, pattern, strict=True)), so_far)
    if isinstance(pattern, Call):
        return _call(value, pattern, so_far)
    return [so_far] if value == pattern else []


def _call(value: Any, pattern: Call, so_far: Match) -> list[Match]:
    if not isinstance(value, fx.Node):
        return []
    node = _below(value)
    if node.op != "call_function":
        return []
    contract = is_op(node)
    if (node.target.name if contract else node.target) not in pattern.targets:
        return []
    bound = {**so_far.bound, pattern.bind: node} if pattern.bind else so_far.bound
    base = Match(so_far.root, bound, so_far.inner | {node})
    named = [(node.kwargs.get(k), p) for k, p in pattern.kwargs.items()]
    if len(node.args) < len(pattern.args) or (pattern.exact and len(node.args) > len(pattern.args)):
        return []
    orders = [list(node.args)]
    if pattern.commutative:
        orders.append([node.args[1], node.args[0], *node.args[2:]])
    return [
        found
        for order in orders
        for found in _each([*zip(order, pattern.args, strict=False), *named], base)
    ]


def _each(pairs: list[tuple[Any, Pattern]], so_far: Match) -> list[Match]:
    found = [so_far]
    for value, pattern in pairs:
        found = [later for earlier in found for later in _alternatives(value, pattern, earlier)]
    return found


def _below(node: fx.Node) -> fx.Node:
    """The node under casts and (in lowered graphs) reshapes that stand between two calls of contracts."""
    while node.op == "call_function":
        if node.target in CASTS:
            node = node.args[0]
        elif node.target is aten.view.default and is_op(source(node)):
            node = source(node)
        else:
            break
    return node


def _same(a: Any, b: Any) -> bool:
    return a is b if isinstance(a, fx.Node) or isinstance(b, fx.Node) else bool(a == b)
