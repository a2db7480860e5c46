"""Ops in which each element of the output needs one element, or one pair, of the input."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pytest_webgpu.ops.contract import op


@op
def add(a: Float[Tensor, "n"], b: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """a + b"""
    return a + b


@op
def mul(a: Float[Tensor, "n"], b: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """a * b"""
    return a * b


@op
def silu(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """x * sigmoid(x) (Elfwing et al. 2018)."""
    return F.silu(x)


@op
def silu_mul(gate: Float[Tensor, "n"], up: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """silu(gate) * up"""
    return F.silu(gate) * up


@op
def swiglu(x: Float[Tensor, "rows 2*cols"]) -> Float[Tensor, "rows cols"]:
    """silu(first half of each row) * second half (Shazeer 2020)."""
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


@op
def cast(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """x in the element type of the kernel's `out`: where that is narrower, either neighbour is right."""
    return x.clone()


@op(
    where=[
        "offset + (d0 - 1) * s0 + (d1 - 1) * s1 + (d2 - 1) * s2 + (d3 - 1) * s3 < size",
    ]
)
def copy(
    x: Float[Tensor, "size"],
    d0: int,
    d1: int,
    d2: int,
    d3: int,
    offset: int = 0,
    s0: int = 0,
    s1: int = 0,
    s2: int = 0,
    s3: int = 1,
) -> Float[Tensor, "d0 d1 d2 d3"]:
    """out[i, j, k, l] = x[offset + i*s0 + j*s1 + k*s2 + l*s3]: transposes, slices, broadcasts. Strides in elements."""
    return x.as_strided((d0, d1, d2, d3), (s0, s1, s2, s3), offset).clone()
