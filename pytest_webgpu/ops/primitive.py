"""Ops of a graph in which nothing is fused: a dispatch for each operation of torch's, broadcasts and views by strides.

Strides and offsets are in elements, those of `a` named a0 to a3; an axis of stride 0 is broadcast.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pytest_webgpu.ops.contract import op

A = "a_offset + (d0 - 1) * a0 + (d1 - 1) * a1 + (d2 - 1) * a2 + (d3 - 1) * a3 < a_size"
B = "b_offset + (d0 - 1) * b0 + (d1 - 1) * b1 + (d2 - 1) * b2 + (d3 - 1) * b3 < b_size"


@op
def square(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """x * x: torch's pow(x, 2), which WGSL's pow is not for a negative x."""
    return x.square()


@op(draw={"x": ["uniform", "offset", "growing"]})
def rsqrt(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """1 / sqrt(x); nothing is promised for x <= 0."""
    return torch.rsqrt(x)


@op(draw={"value": [1e-6, 1e-5, -0.5, 3.0]})
def add_scalar(x: Float[Tensor, "n"], value: float = 0.0) -> Float[Tensor, "n"]:
    """x + value"""
    return x + value


@op(draw={"value": [0.125, -1.0, 3.0]})
def mul_scalar(x: Float[Tensor, "n"], value: float = 1.0) -> Float[Tensor, "n"]:
    """x * value"""
    return x * value


@op(where=[A])
def neg(
    a: Float[Tensor, "a_size"], d0: int, d1: int, d2: int, d3: int,
    a_offset: int = 0, a0: int = 0, a1: int = 0, a2: int = 0, a3: int = 1,
) -> Float[Tensor, "d0 d1 d2 d3"]:  # fmt: skip
    """-a, of a view"""
    return -a.as_strided((d0, d1, d2, d3), (a0, a1, a2, a3), a_offset)


@op(where=[A, B])
def add_broadcast(
    a: Float[Tensor, "a_size"], b: Float[Tensor, "b_size"], d0: int, d1: int, d2: int, d3: int,
    a_offset: int = 0, a0: int = 0, a1: int = 0, a2: int = 0, a3: int = 1,
    b_offset: int = 0, b0: int = 0, b1: int = 0, b2: int = 0, b3: int = 1,
) -> Float[Tensor, "d0 d1 d2 d3"]:  # fmt: skip
    """a + b, of two views"""
    shape = (d0, d1, d2, d3)
    return a.as_strided(shape, (a0, a1, a2, a3), a_offset) + b.as_strided(shape, (b0, b1, b2, b3), b_offset)


@op(where=[A, B])
def mul_broadcast(
    a: Float[Tensor, "a_size"], b: Float[Tensor, "b_size"], d0: int, d1: int, d2: int, d3: int,
    a_offset: int = 0, a0: int = 0, a1: int = 0, a2: int = 0, a3: int = 1,
    b_offset: int = 0, b0: int = 0, b1: int = 0, b2: int = 0, b3: int = 1,
) -> Float[Tensor, "d0 d1 d2 d3"]:  # fmt: skip
    """a * b, of two views"""
    shape = (d0, d1, d2, d3)
    return a.as_strided(shape, (a0, a1, a2, a3), a_offset) * b.as_strided(shape, (b0, b1, b2, b3), b_offset)


@op(where=[A.replace("d3", "a_cols"), B.replace("d3", "b_cols")])
def cat(
    a: Float[Tensor, "a_size"], b: Float[Tensor, "b_size"], d0: int, d1: int, d2: int, a_cols: int, b_cols: int,
    a_offset: int = 0, a0: int = 0, a1: int = 0, a2: int = 0, a3: int = 1,
    b_offset: int = 0, b0: int = 0, b1: int = 0, b2: int = 0, b3: int = 1,
) -> Float[Tensor, "d0 d1 d2 a_cols+b_cols"]:  # fmt: skip
    """Two views behind each other along the last axis."""
    first = a.as_strided((d0, d1, d2, a_cols), (a0, a1, a2, a3), a_offset)
    return torch.cat((first, b.as_strided((d0, d1, d2, b_cols), (b0, b1, b2, b3), b_offset)), -1)
