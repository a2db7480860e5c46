"""A model's tensors: drawn from a seed so that every part of the model shows in the tokens, or read from a folder.

transformers' default initialisation with tied embeddings repeats the last token whatever the kernels do. So: matrices
N(0, 1) / sqrt(fan in), embeddings 0.02 N, biases 0.5 N, norm weights 1 + 0.3 N, and the final norm's with random signs.
In a deep model queries and keys are SHARP times larger, or attention averages its values to their bias and 24 layers
repeat one token (2 different ones of 32; with 1.5 15, with 3 30). More of it makes f16 so chaotic that no token is
decided (by transformers' own error, of 32 positions: 31, 18 and 0).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.compiler.load import Weights
from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.qwen2.errors import BadWeights

BLOCK = 1 << 18
"""Elements that are drawn from one seed: rows can be had one block at a time, in any order."""
SHARP, DEEP = 1.5, 8


class DrawnWeights:
    """Weights of given shapes from a seed. The same rows come out however they are read."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], seed: int = 0, sharp: float = 1.0) -> None:
        self.shapes, self.seed, self.sharp = dict(shapes), seed, sharp

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.shapes:
            raise BadWeights(f"the model has no tensor {name}")
        return self.shapes[name]

    def read(self, name: str, first: int, count: int) -> NDArray[Any]:
        width = prod(self.shape(name)[1:])
        step = max(1, BLOCK // width)
        blocks = range(first // step, -(-(first + count) // step))
        with ThreadPoolExecutor() as threads:
            drawn = np.concatenate(list(threads.map(lambda b: self._block(name, b, step, width), blocks)))
        rows: NDArray[Any] = drawn[first - blocks.start * step :][:count]
        return rows if len(self.shape(name)) > 1 else rows.reshape(-1)

    def _block(self, name: str, block: int, rows: int, width: int) -> NDArray[Any]:
        bits = np.random.SFC64(np.random.SeedSequence((self.seed, zlib.crc32(name.encode()), block)))
        draw = np.random.Generator(bits)
        value = draw.standard_normal((rows, width), dtype=np.float32)
        if name.endswith("norm.weight"):
            value = 1 + np.float32(0.3) * value
            signs = 2 * draw.integers(0, 2, value.shape, dtype=np.int32) - 1
            return value * signs.astype(np.float32) if name == "model.norm.weight" else value
        if name.endswith(".bias"):
            return np.float32(0.5) * value
        if name == "model.embed_tokens.weight":
            return np.float32(0.02) * value
        sharp = self.sharp if name.endswith(("q_proj.weight", "k_proj.weight")) else 1.0
        return value * np.float32(sharp * width**-0.5)


class FolderWeights:
    """The *.safetensors of a folder, memory-mapped. f32, f16 and bf16 come out as float32 (f16 as float16)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _files(self) -> dict[str, Any]:
        """The open file of each tensor."""
        from safetensors import SafetensorError, safe_open

        found: dict[str, Any] = {}
        file: Any
        for path in sorted(self.folder.glob("*.safetensors")):
            try:
                file = safe_open(path, framework="pt")
            except (SafetensorError, OSError) as error:
                raise BadWeights(f"{path} cannot be read: {error}; fetch it again") from error
            found |= {name: file for name in file.keys()}
        return found

    def _slice(self, name: str) -> Any:
        if name not in self._files:
            raise BadWeights(f"{self.folder}: no file holds the tensor {name}, which the model needs")
        return self._files[name].get_slice(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._slice(name).get_shape())

    def read(self, name: str, first: int, count: int) -> NDArray[Any]:
        import torch

        rows = self._slice(name)[first : first + count]
        if rows.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise BadWeights(f"{self.folder}: {name} is {rows.dtype}; float32, float16 and bfloat16 are read")
        array: NDArray[Any] = (rows if rows.dtype == torch.float16 else rows.float()).numpy()
        return array


def check_weights(plan: Plan, weights: Weights) -> None:
    """Raises BadWeights where a tensor that the plan reads is missing or has another shape."""
    needed: dict[str, tuple[int, ...]] = {}
    for buffer in plan.buffers.values():
        for rows in buffer.rows:
            height = max(rows.first + rows.count, needed.get(rows.tensor, (0,))[0])
            needed[rows.tensor] = (height, *buffer.shape[1:])
    for name, shape in needed.items():
        if (found := tuple(weights.shape(name))) != shape:
            raise BadWeights(f"{name} has the shape {found}; the model needs {shape}")


def whole(weights: Weights, name: str) -> NDArray[Any]:
    return weights.read(name, 0, weights.shape(name)[0])
