"""What a launch has to move and to compute, from the op's contract: bytes of inputs and outputs, and flops.

Each byte is counted once, however often a kernel reads it: the least that any kernel could do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # they import torch, which this module's users in reports do without
    from pytest_webgpu.ops.contract import Contract
    from pytest_webgpu.ops.launch import BoundArgument, Launch

Numbers = Mapping[str, int | float]


@dataclass(frozen=True)
class Work:
    """`bytes` read and written, `flops` (a multiply-add is two; only products and attention are counted)."""

    bytes: int
    flops: int


def work(op: Contract, launch: Launch) -> Work:
    """The work of one launch."""
    moved = sum(_bytes(op, argument, launch.names) for argument in launch.arguments if argument.role == "tensor")
    return Work(math.ceil(moved), _flops(op, launch))


def _bytes(op: Contract, argument: BoundArgument, names: Numbers) -> float:
    elements = math.prod(argument.shape)
    touched = _touched(op.name.split("+"), argument.name, names)
    return argument.size if touched is None or not elements else argument.size * min(1.0, touched / elements)


def _touched(parts: list[str], name: str, names: Numbers) -> float | None:
    """Elements of a tensor that an op reads or writes, where these are not all of them."""
    tokens = names.get("tokens", 1)
    if name == "weight" and "embedding" in parts:
        return names["rows"] * names["cols"]
    if name in ("k", "v") and "attention" in parts:
        return names["kv_heads"] * (names["start"] + tokens) * names["head_dim"]
    if name in ("cache", "k_cache", "v_cache", "kv_cache"):  # written in place: only the new slice
        heads = names["heads"] if name == "cache" else names["kv_heads"]
        return (2 if name == "kv_cache" else 1) * heads * tokens * names["head_dim"]
    if name in ("cos", "sin", "rope_table"):
        return (2 if name == "rope_table" else 1) * tokens * names["half"]
    if name == "log" and "advance" in parts:
        return 1
    if name == "x" and parts == ["copy"]:
        return math.prod(names[d] for d in ("d0", "d1", "d2", "d3"))
    return None


def _flops(op: Contract, launch: Launch) -> int:
    names, parts, flops = launch.names, op.name.split("+"), 0.0
    if "linear" in parts:
        weight = next(a for a in launch.arguments if a.role == "tensor" and a.name == "weight")
        flops += 2 * names.get("rows", names.get("tokens", 1)) * math.prod(weight.shape)
    if "attention" in parts:  # query t sees start + t + 1 positions: a product with the keys, one with the values
        seen = sum(names["start"] + t + 1 for t in range(int(names["tokens"])))
        flops += 4 * names["heads"] * names["head_dim"] * seen
    return int(flops)
