"""What fusions have in common: making an op where a kernel implements it, joining weights, cutting columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from pytest_webgpu.compiler.graph import Role, cut, emit, is_op, reshape, role_of, shape_of, users
from pytest_webgpu.compiler.lower import ALIGN

Refusal = Callable[[fx.Node], str | None]


def anything(_: fx.Node) -> str | None:
    """Refuses nothing."""
    return None


class Rewrite:
    """One pass over a lowered graph. `refuse` says why no kernel implements a node (None: one does). `swapped` says of
    a node whether a user's own kernel would compute it: such a node is not fused away. `notes` counts what was left."""

    def __init__(
        self,
        graph: fx.Graph,
        names: Collection[str],
        refuse: Refusal = anything,
        swapped: Callable[[fx.Node], bool] = lambda _: False,
    ) -> None:
        self.graph, self.names, self.refuse, self.swapped = graph, names, refuse, swapped
        self.notes: Counter[str] = Counter()
        self.fusion = ""

    def nodes(self, *names: str) -> list[fx.Node]:
        """Calls of these contracts, in order."""
        return [n for n in self.graph.nodes if is_op(n, *names)]

    def note(self, reason: str) -> None:
        self.notes[f"{self.fusion}: {reason}"] += 1

    def make(
        self, before: fx.Node, name: str, arguments: Mapping[str, Any], of: Iterable[fx.Node]
    ) -> fx.Node | None:
        """A call of `name` in front of a node, in place of the calls `of`; None (and a note) where that cannot be."""
        swallowed = list(of)
        for node in swallowed:
            if self.swapped(node):
                self.note(f"left apart, for the kernel that was swapped in for {node.target.name}")
                return None
        with self.graph.inserting_before(before):
            made = emit(self.graph, name, arguments, like=swallowed[0])
        if (reason := self.refuse(made)) is None:
            return made
        self.note(reason)
        self.graph.erase_node(made)
        return None

    def replace(self, old: fx.Node, new: fx.Node) -> None:
        """Every use of `old` becomes one of `new`, in the shape of `old`."""
        if not isinstance(old.meta["val"], tuple):
            with self.graph.inserting_before(old):
                new = reshape(self.graph, new, shape_of(old))
        old.replace_all_uses_with(new)
        self.drop(old)

    def drop(self, node: fx.Node) -> None:
        """Erases a call that nothing uses, and what only it used."""
        below = [n for n in node.all_input_nodes if n.op == "call_function" or role_of(n) is not None]
        self.graph.erase_node(node)
        for n in below:
            role = role_of(n)
            if not n.users and (role is None or role.kind == "weight"):
                self.drop(n)

    def join(self, linears: Sequence[fx.Node]) -> fx.Node | None:
        """One product in place of several of the same x: weights and biases one below the other."""
        first = linears[0]
        biases = [n.kwargs.get("bias") for n in linears]
        if len(set(linears)) < len(linears) or any(n.kwargs["x"] is not first.kwargs["x"] for n in linears):
            return None
        if any((b is None) != (biases[0] is None) for b in biases):
            return None
        arguments = {
            "x": first.kwargs["x"],
            "weight": self._joined([n.kwargs["weight"] for n in linears]),
            "bias": self._joined(biases) if biases[0] is not None else None,
        }
        made = self.make(first, "linear", arguments, of=linears)
        for joined in (arguments["weight"], arguments["bias"]):
            if made is None and joined is not None:
                self.graph.erase_node(joined)  # or the plan would have the weights twice
        return made

    def _joined(self, weights: Sequence[Any]) -> fx.Node:
        roles = [w.meta["role"] for w in weights]
        shape = (sum(shape_of(w)[0] for w in weights), *shape_of(weights[0])[1:])
        with self.graph.inserting_after(weights[0]):
            node = self.graph.placeholder("joined")
        parts = tuple((r.name, shape_of(w)[0]) for r, w in zip(roles, weights, strict=True))
        role = Role("weight", _joined_name([r.name for r in roles]), layer=roles[0].layer, parts=parts)
        node.meta.update(role=role, val=torch.empty(shape, device="meta"))
        return node

    def split(self, joined: fx.Node, linears: Sequence[fx.Node]) -> None:
        """Each of the products becomes the columns of the joined one that it was."""
        low = 0
        for old in linears:
            with self.graph.inserting_after(joined):
                piece = cut(self.graph, joined, low, shape_of(old))
            low += shape_of(old)[1]
            self.replace(old, piece)


def _joined_name(names: Sequence[str]) -> str:
    """a.q.weight, a.k.weight -> a.q+k.weight"""
    columns = zip(*(n.split(".") for n in names), strict=True)
    return ".".join("+".join(dict.fromkeys(column)) for column in columns)


def splits_freely(linears: Sequence[fx.Node]) -> bool:
    """Whether the columns of each product in their join are a piece of memory that can be bound: one row, aligned."""
    widths = [shape_of(n)[1] for n in linears]
    return shape_of(linears[0])[0] == 1 and all(w % ALIGN == 0 for w in widths[:-1])


def sole_user(node: fx.Node) -> fx.Node | None:
    """The one node that uses a value (through reshapes), if it is one."""
    found = set(users(node))
    return found.pop() if len(found) == 1 else None

