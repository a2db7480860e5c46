"""What a launch has to move and to compute, from the op's contract: bytes of inputs and outputs, and flops.

Each byte is counted once, however often a kernel reads it: the least that any kernel could do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # they import torch, which this module's users in reports do without
    from pytest_webgpu.ops.contract import Contract
    from pytest_webgpu.ops.launch import Launch

Numbers = Mapping[str, int | float]


@dataclass(frozen=True)
class Work:
    """`bytes` read and written, `flops` (a multiply-add is two; only products and attention are counted)."""

    bytes: int
    flops: int

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.flops + other.flops)


@dataclass(frozen=True)
class Tensor:
    """A tensor that an op binds, by the contract's name: its logical shape and its bytes as stored."""

    name: str
    shape: tuple[int, ...]
    bytes: int


def work(op: Contract, launch: Launch) -> Work:
    """The work of one launch of a kernel."""
    tensors = [Tensor(a.name, a.shape, a.size) for a in launch.arguments if a.role == "tensor"]
    return work_of(op.name, launch.names, tensors)


def work_of(op: str, names: Numbers, tensors: Iterable[Tensor]) -> Work:
    """The work of an op. `names`: dims and scalars; a scalar left out is 0. `tensors`: each once, outputs too."""
    by_name = {t.name: t for t in tensors}
    parts = op.split("+")
    moved = math.ceil(sum(_bytes(parts, t, names) for t in by_name.values()))
    return Work(moved, _flops(parts, names, by_name))


def _bytes(parts: list[str], tensor: Tensor, names: Numbers) -> float:
    elements = math.prod(tensor.shape)
    touched = _touched(parts, tensor.name, names)
    return tensor.bytes if touched is None or not elements else tensor.bytes * min(1.0, touched / elements)


def _touched(parts: list[str], name: str, names: Numbers) -> float | None:
    """Elements of a tensor that an op reads or writes, where these are not all of them."""
    tokens = names.get("tokens", 1)
    if name == "weight" and parts[0] in ("embedding", "embedding_piece"):
        return names["rows"] * names["cols"]
    if name in ("k", "v") and "attention" in parts:
        return names["kv_heads"] * (names.get("start", 0) + tokens) * names["head_dim"]
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


def _flops(parts: list[str], names: Numbers, tensors: Mapping[str, Tensor]) -> int:
    flops = 0.0
    if "linear" in parts:
        flops += 2 * names.get("rows", names.get("tokens", 1)) * math.prod(tensors["weight"].shape)
    if "attention" in parts:  # query t sees start + t + 1 positions: a product with the keys, one with the values
        seen = sum(names.get("start", 0) + t + 1 for t in range(int(names["tokens"])))
        flops += 4 * names["heads"] * names["head_dim"] * seen
    return int(flops)
