"""Products with a weight matrix, and rows picked out of one."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pytest_webgpu.ops.contract import below, op


@op(draw={"ids": below("vocab")})
def embedding(ids: Int[Tensor, "rows"], weight: Float[Tensor, "vocab cols"]) -> Float[Tensor, "rows cols"]:
    """Row ids[i] of weight, for each i."""
    return weight[ids]


class Gathered(NamedTuple):
    out: Float[Tensor, "rows cols"]


@op(draw={"ids": below("2*vocab"), "first": [0, 1, 3]})
def embedding_piece(
    out: Float[Tensor, "rows cols"], ids: Int[Tensor, "rows"], weight: Float[Tensor, "vocab cols"], first: int = 0
) -> Gathered:
    """embedding by a table that is too large for one binding: weight is its rows from `first` on.

    Rows of out whose id lies in this piece are written, in place; the others stay as they were.
    """
    own = ids - first
    is_here = (own >= 0) & (own < weight.shape[0])
    rows = weight[torch.where(is_here, own, 0)]
    return Gathered(torch.where(is_here[:, None], rows, out))


@op
def linear(
    x: Float[Tensor, "rows k"], weight: Float[Tensor, "n k"], bias: Float[Tensor, "n"] | None = None
) -> Float[Tensor, "rows n"]:
    """x @ weight^T + bias; the weight lies as (outputs, inputs), as in torch."""
    return F.linear(x, weight, bias)
