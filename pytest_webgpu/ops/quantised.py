"""Products with 4-bit weights whose packed words, scales and zero points lie in tensors of their own."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pytest_webgpu.ops.contract import below, op

MIDDLE = 8.0
"""The zero point where none is given: of 0 to 15, the one above the middle."""


@op(draw={"packed": below("4294967296"), "halves": [0, 1]})
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
    q = ((packed.reshape(n, blocks, 4, 1) >> (4 * torch.arange(8, device=packed.device))) & 15).reshape(n, blocks, 32)
    if halves:
        q = q.reshape(n, blocks, 16, 2).transpose(-1, -2).reshape(n, blocks, 32)
    middle = MIDDLE if zero is None else zero[..., None]
    return F.linear(x, ((q - middle) * scale[..., None]).reshape(n, 32 * blocks))
