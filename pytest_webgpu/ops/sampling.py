"""From logits to tokens. Equal maxima go to the lowest index."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pytest_webgpu.ops.contract import below, op


class TopK(NamedTuple):
    values: Float[Tensor, "rows k"]
    indices: Int[Tensor, "rows k"]


class Advanced(NamedTuple):
    token: Int[Tensor, "1"]
    position: Int[Tensor, "1"]
    log: Int[Tensor, "capacity"]


@op(ties="first")
def argmax(x: Float[Tensor, "rows cols"]) -> Int[Tensor, "rows"]:
    """The index of the largest element of each row, the lowest of several."""
    return first_maximum(x)


def first_maximum(x: Tensor) -> Tensor:
    """torch.argmax promises no order among ties, so the least index of (x == maximum) is taken."""
    last = x.shape[-1] - 1
    index = torch.arange(last + 1, device=x.device)
    return torch.where(x == x.amax(-1, keepdim=True), index, last).amin(-1)


@op(where=["k <= cols"], ties="first")
def top_k(x: Float[Tensor, "rows cols"], k: int) -> TopK:
    """The k largest elements of each row, largest first, equal ones in order of their index."""
    ordered = torch.sort(x, dim=-1, descending=True, stable=True)
    return TopK(ordered.values[:, :k], ordered.indices[:, :k])


@op(
    name="argmax+advance",
    ties="first",
    draw={"token": below("vocab"), "position": below("capacity - 1"), "log": below("vocab")},
    where=["capacity >= 2"],
)
def argmax_advance(
    logits: Float[Tensor, "1 vocab"],
    token: Int[Tensor, "1"],
    position: Int[Tensor, "1"],
    log: Int[Tensor, "capacity"],
) -> Advanced:
    """token = argmax(logits); position += 1; log[position] = token, at the new position. All in place."""
    chosen = first_maximum(logits)
    moved = position + 1
    return Advanced(chosen, moved, log.scatter(0, moved, chosen))
