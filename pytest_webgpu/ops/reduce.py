"""Reductions of each row to one number."""

from jaxtyping import Float
from torch import Tensor

from pytest_webgpu.ops.contract import op


@op
def sum(x: Float[Tensor, "rows cols"]) -> Float[Tensor, "rows"]:
    """The sum of each row."""
    return x.sum(-1)


@op
def mean(x: Float[Tensor, "rows cols"]) -> Float[Tensor, "rows"]:
    """The mean of each row."""
    return x.mean(-1)


@op
def max(x: Float[Tensor, "rows cols"]) -> Float[Tensor, "rows"]:
    """The largest element of each row: no rounding, so bit for bit."""
    return x.amax(-1)
