"""Products with a weight matrix, and rows picked out of one."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pytest_webgpu.ops.contract import below, op


@op(draw={"ids": below("vocab")})
def embedding(ids: Int[Tensor, "rows"], weight: Float[Tensor, "vocab cols"]) -> Float[Tensor, "rows cols"]:
    """Row ids[i] of weight, for each i."""
    return weight[ids]


@op
def linear(
    x: Float[Tensor, "rows k"], weight: Float[Tensor, "n k"], bias: Float[Tensor, "n"] | None = None
) -> Float[Tensor, "rows n"]:
    """x @ weight^T + bias; the weight lies as (outputs, inputs), as in torch."""
    return F.linear(x, weight, bias)
