"""Normalisations along a row."""

import torch
from jaxtyping import Float
from torch import Tensor

from pytest_webgpu.ops.contract import op

EPS = [1e-6, 1e-5, 1e-3]


@op(draw={"eps": EPS})
def rms_norm(
    x: Float[Tensor, "rows cols"], weight: Float[Tensor, "cols"], eps: float = 1e-6
) -> Float[Tensor, "rows cols"]:
    """Root mean square layer normalisation (Zhang and Sennrich 2019, eq. 4): x / sqrt(mean(x^2) + eps) * weight."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


@op
def softmax(x: Float[Tensor, "rows cols"]) -> Float[Tensor, "rows cols"]:
    """exp(x) / sum(exp(x)) along each row."""
    return torch.softmax(x, -1)
