"""Logical arrays to the bytes that a binding holds, and back. What is stored is the truth: values are rounded first.

f16x2 is two f16 a u32, the first in the low half; i8x4 four i8, the first lowest; q4_32 is blocks of 32: a word with
an f16 scale (low) and an f16 zero point (high), then four words of eight nibbles, the lowest nibble first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NUMPY: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32, "i8": np.int8}
RANGE = {"f32": (2.0**-126, 3.4028234663852886e38), "f16": (2.0**-14, 65504.0)}  # least normal, largest
BLOCK = 32
MANTISSA, LEAST_SCALE = 1.3125, 2.0**-14


def round_to(values: Array, dtype: str, storage: str = "plain") -> Array:
    """The values that a binding of this dtype and storage can hold, nearest to `values`; subnormals become zero."""
    if storage == "q4_32":
        return unpack(pack(values, dtype, storage), dtype, storage, values.shape)
    if dtype == "i8":
        return np.clip(np.rint(values), -128, 127).astype(np.float32)
    if dtype in RANGE:
        least, largest = RANGE[dtype]
        kept: Array = np.clip(values, -largest, largest).astype(NUMPY[dtype])
        kept[np.abs(kept) < least] = 0
        return kept
    if dtype == "u32":
        return np.maximum(values, 0).astype(np.uint32)
    whole: Array = values.astype(NUMPY[dtype])
    return whole


def pack(values: Array, dtype: str, storage: str = "plain") -> bytes:
    """The bytes of an array, row-major, without padding to the binding's size."""
    if storage == "q4_32":
        return _pack_q4(values)
    return np.ascontiguousarray(values).astype(NUMPY[dtype], copy=False).tobytes()


def unpack(data: Any, dtype: str, storage: str, shape: tuple[int, ...]) -> Array:
    """The array of `shape` that lies at the start of `data`."""
    count = math.prod(shape)
    if storage == "q4_32":
        return _unpack_q4(data, count).reshape(shape)
    values: Array = np.frombuffer(data, NUMPY[dtype], count).reshape(shape)
    return values


def _pack_q4(values: Array) -> bytes:
    flat = values.astype(np.float32).ravel()
    blocks = np.zeros((-(-flat.size // BLOCK), BLOCK), np.float32)
    blocks.ravel()[: flat.size] = flat
    # Scales are MANTISSA times a power of two, zero points whole, and zero can be held: so packing what was unpacked
    # gives the same values again, although a smaller scale may do for them.
    low, high = np.minimum(blocks.min(1), 0), np.maximum(blocks.max(1), 0)
    exponent = np.ceil(np.log2(np.maximum((high - low) / (15 * MANTISSA), LEAST_SCALE)))
    scale = (MANTISSA * np.exp2(np.clip(exponent, -14, 14))).astype(np.float16)
    zero = np.clip(np.rint(-low / scale.astype(np.float32)), 0, 15).astype(np.float16)
    nibbles = np.rint(blocks / scale[:, None].astype(np.float32) + zero[:, None].astype(np.float32))
    nibbles = np.clip(nibbles, 0, 15).astype(np.uint32).reshape(-1, 4, 8)
    words = (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(2, dtype=np.uint32)
    head = np.stack((scale, zero), 1).view(np.uint32)
    return np.concatenate((head, words), 1).tobytes()


def _unpack_q4(data: Any, count: int) -> Array:
    blocks = -(-count // BLOCK)
    words: Array = np.frombuffer(data, np.uint32, blocks * 5).reshape(blocks, 5)
    head = np.ascontiguousarray(words[:, :1]).view(np.float16).astype(np.float32)
    nibbles = (words[:, 1:, None] >> (4 * np.arange(8, dtype=np.uint32))) & 15
    values: Array = ((nibbles.reshape(blocks, BLOCK) - head[:, 1:]) * head[:, :1]).astype(np.float32)
    return values.ravel()[:count]
