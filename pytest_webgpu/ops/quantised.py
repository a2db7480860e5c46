"""Products with 4-bit weights whose packed words, scales and zero points lie in tensors of their own."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pytest_webgpu.ops.contract import below, op

MIDDLE = 8.0
"""The zero point where none is given: of 0 to 15, the one above the middle."""


def nibbles(packed: Tensor, n: int, blocks: int, halves: int) -> Tensor:
    """The numbers 0 to 15 of packed (n, 4 * blocks), as (n, blocks, 32)."""
    q = ((packed.reshape(n, blocks, 4, 1) >> (4 * torch.arange(8, device=packed.device))) & 15).reshape(n, blocks, 32)
    return q.reshape(n, blocks, 16, 2).transpose(-1, -2).reshape(n, blocks, 32) if halves else q


def zero_point_apart(
    x: Tensor, packed: Tensor, scale: Tensor, zero: Tensor | None = None, halves: int = 0
) -> Tensor:
    """linear_q4 as kernels that multiply whole numbers compute it: a block is scale * (sum of q x - zero * sum of x).

    The two sums are larger than their difference, so it rounds off more than the product with (q - zero) * scale.
    """
    n, blocks = scale.shape
    rows = x.reshape(x.shape[0], blocks, 32)
    products = torch.einsum("rbi,nbi->rnb", rows, nibbles(packed, n, blocks, halves).to(x.dtype))
    middle = MIDDLE if zero is None else zero
    return ((products - middle * rows.sum(-1)[:, None, :]) * scale).sum(-1)


@op(draw={"packed": below("4294967296"), "halves": [0, 1]}, forms=[zero_point_apart])
def linear_q4(
    x: Float[Tensor, "rows 32*blocks"],
    packed: Int[Tensor, "n 4*blocks"],
    scale: Float[Tensor, "n blocks"],
    zero: Float[Tensor, "n blocks"] | None = None,
    halves: int = 0,
) -> Float[Tensor, "rows n"]:
    """x @ weight^T, the weight in blocks of 32 along a row: (q - zero) * scale, q of 4 bits, eight to a word.

    Element i of a block is nibble i, counted from the lowest of its first word; or, with `halves`, byte i mod 16 has
    element i in its low nibble for i < 16 and in its high one from 16 on (llama.cpp's Q4_0).
    """
    n, blocks = scale.shape
    q = nibbles(packed, n, blocks, halves)
    middle = MIDDLE if zero is None else zero[..., None]
    return F.linear(x, ((q - middle) * scale[..., None]).reshape(n, 32 * blocks))
