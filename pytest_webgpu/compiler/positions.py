"""Values that depend on positions alone (angles, masks): computed on the host, once, and never dispatched.

Positions are start, start + 1, ...: so a table with a row for each position of the cache says all of cos and sin,
and a mask is proven causal by looking at it for the starts that there are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from pytest_webgpu.compiler.errors import Unsupported, where
from pytest_webgpu.compiler.graph import role_of

STARTS = 64  # a mask is looked at for at most so many starts, both ends among them


class Positional:
    """The values of a captured graph that nothing but positions and constants decides."""

    def __init__(self, graph: fx.Graph, tokens: int, capacity: int) -> None:
        self.tokens, self.capacity = tokens, capacity
        self.nodes: set[fx.Node] = set()
        self.positions: fx.Node | None = None
        self._tables: dict[fx.Node, Tensor] = {}
        self._causal: set[fx.Node] = set()
        self._first: dict[fx.Node, fx.Node] = {}  # layers ask the same of positions, each in nodes of its own
        firsts: dict[str, fx.Node] = {}
        for node in graph.nodes:
            role = role_of(node)
            if role is not None and role.kind == "input" and role.name == "positions":
                self.positions = node
                self.nodes.add(node)
            elif (role is not None and role.kind == "constant") or (
                node.op == "call_function" and all(a in self.nodes for a in node.all_input_nodes)
            ):
                self.nodes.add(node)
                said = fx.node.map_arg((node.args, dict(node.kwargs)), self._same)
                key = node.name if role is not None else f"{node.target} {said}"
                self._first[node] = firsts.setdefault(key, node)

    def _same(self, node: fx.Node) -> fx.Node:
        """The first node of the graph that computes what this one does."""
        return self._first.get(node, node)

    def at(self, node: fx.Node, start: int) -> Tensor:
        """The node's value when the step's first token stands at `start`."""
        values: dict[fx.Node, Any] = {}

        def value(n: fx.Node) -> Any:
            if n not in values:
                role = role_of(n)
                if n is self.positions:
                    values[n] = torch.arange(start, start + self.tokens)
                elif role is not None:
                    values[n] = role.value
                else:
                    keywords = {k: v for k, v in n.kwargs.items() if k != "device"}
                    values[n] = n.target(*fx.node.map_arg(n.args, value), **fx.node.map_arg(keywords, value))
            return values[n]

        with torch.no_grad():
            result: Tensor = value(node)
        return result

    def table(self, node: fx.Node) -> Tensor:
        """(capacity, width) float32: row p is the value of `node` for a token at position p.

        Raises Unsupported where a row depends on more than its own token's position.
        """
        node = self._same(node)
        if node in self._tables:
            return self._tables[node]
        last = self.capacity - self.tokens
        pieces = {start: self._rows(node, start) for start in (*range(0, last + 1, self.tokens), last)}
        table = torch.empty(self.capacity, pieces[0].shape[1])
        for start, rows in pieces.items():
            table[start : start + self.tokens] = rows
        probe = last // 2
        if not torch.equal(table[probe : probe + self.tokens], self._rows(node, probe)):
            raise Unsupported(f"a value of positions is not one row a position: {where(node)}")
        self._tables[node] = table
        return table

    def _rows(self, node: fx.Node, start: int) -> Tensor:
        value = self.at(node, start)
        if value.numel() % self.tokens or self.tokens not in value.shape:
            raise Unsupported(f"a value of positions is not one row a position: {where(node)}")
        return value.reshape(self.tokens, -1)

    def is_causal(self, node: fx.Node) -> bool:
        """Whether a boolean mask, (..., tokens, capacity), lets a token at position p see positions 0 to p alone."""
        if node not in self.nodes:
            return False
        node = self._same(node)
        if node not in self._causal:
            last = self.capacity - self.tokens
            for start in sorted({*range(0, last + 1, max(1, last // STARTS)), last}):
                mask = self.at(node, start)
                wanted = torch.arange(self.capacity) <= torch.arange(start, start + self.tokens)[:, None]
                if mask.dtype != torch.bool or not torch.equal(mask, wanted.expand(mask.shape)):
                    return False
            self._causal.add(node)
        return True
