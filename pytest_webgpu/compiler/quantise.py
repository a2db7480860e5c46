"""Matrices of floats as blocks of 32 numbers of 4 bits, each with a scale and a zero point: the storage q4_32."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.compiler.errors import CompilerError
from pytest_webgpu.conformance.packing import unpack

BLOCK = 32
LEAST_SCALE = 2.0**-14  # the least normal f16: devices may take a lesser one for zero
TOGETHER = 1 << 13  # blocks that one thread does at a time: 1 MB of floats, which stay in its cache


class NotQuantisable(CompilerError):
    """Rows that are no whole number of blocks, or values that 4 bits and a scale in f16 cannot stand for."""


def quantise(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Values (rows, cols) as words (rows, cols / 32 * 5), laid out as ops.signature.PACKED says of q4_32.

    Rounded to nearest: the scale is a fifteenth of a block's range (with zero in it), rounded up to f16, and the zero
    point is whole, so that no value is off by more than half a scale and zero stays zero. Raises NotQuantisable.
    """
    rows, cols = values.shape
    if cols % BLOCK:
        raise NotQuantisable(f"rows of {cols} weights are no whole number of blocks of {BLOCK}")
    blocks = values.reshape(-1, BLOCK)
    parts = [blocks[first : first + TOGETHER] for first in range(0, len(blocks), TOGETHER)]
    with ThreadPoolExecutor() as threads:
        words = np.concatenate([np.empty((0, 5), np.uint32), *threads.map(_quantised, parts)])
    return words.reshape(rows, cols // BLOCK * 5)


def _quantised(values: NDArray[Any]) -> NDArray[np.uint32]:
    blocks = values.astype(np.float32)
    low, high = np.minimum(blocks.min(1), 0), np.maximum(blocks.max(1), 0)
    wanted = (high - low) / np.float32(15)
    if not (wanted <= np.finfo(np.float16).max).all():  # NaN included
        raise NotQuantisable("a block of 32 weights is not finite, or its range is too wide for a scale in f16")
    scale = np.maximum(wanted, np.float32(LEAST_SCALE)).astype(np.float16)
    scale = np.where(scale.astype(np.float32) < wanted, np.nextafter(scale, np.float16(np.inf)), scale)
    step = scale.astype(np.float32)
    zero = np.rint(np.abs(low) / step)
    blocks /= step[:, None]
    blocks += zero[:, None]
    nibbles = np.clip(np.rint(blocks, out=blocks), 0, 15, out=blocks).astype(np.uint8)
    packed = nibbles[:, ::2] | nibbles[:, 1::2] << 4
    head = np.stack((scale, zero.astype(np.float16)), 1)
    words = np.empty((len(blocks), 5), "<u4")
    words[:, :1] = head.view("<u4")
    words[:, 1:] = np.ascontiguousarray(packed).view("<u4")
    return words


def dequantise(words: NDArray[np.uint32], cols: int) -> NDArray[np.float32]:
    """The values (rows, cols) that the words of `quantise` stand for."""
    return unpack(np.ascontiguousarray(words), "q4", "q4_32", (len(words), cols))


def held(values: NDArray[Any]) -> NDArray[np.float32]:
    """What is left of values (rows, cols) once they are kept in 4 bits."""
    return dequantise(quantise(values), values.shape[1])
