"""What the inputs of a case look like. Each pattern is there for a fault that others do not show (CONFORMANCE.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Rng = np.random.Generator


def _outlier(shape: tuple[int, ...], rng: Rng) -> Array:
    x = rng.standard_normal(shape)
    x.flat[rng.integers(x.size)] = 1000.0
    return x


def _alternating(shape: tuple[int, ...], rng: Rng) -> Array:
    return np.abs(rng.standard_normal(shape)) * (1 - 2 * (np.arange(shape[-1]) % 2))


def _ties(*places: Callable[[int, Rng], int]) -> Callable[[tuple[int, ...], Rng], Array]:
    """Noise below, and one maximum at each of the places of every row."""

    def pattern(shape: tuple[int, ...], rng: Rng) -> Array:
        x = rng.uniform(-4, 1, shape)
        for place in places:
            x[..., min(place(shape[-1], rng), shape[-1] - 1)] = 2.0
        return x

    return pattern


def _few(shape: tuple[int, ...], rng: Rng) -> Array:
    """Whole numbers of which many are equal: ties everywhere."""
    return rng.integers(-2, 3, shape).astype(np.float64)


def _opposed(shape: tuple[int, ...], rng: Rng) -> Array:
    """Products that are all far below zero, though not so far that their errors leave a softmax of them open."""
    return -min(30000, 80000 / max(1, shape[-1])) * rng.uniform(1, 2, shape)


PATTERNS: dict[str, Callable[[tuple[int, ...], Rng], Array]] = {
    "normal": lambda shape, rng: rng.standard_normal(shape),
    "uniform": lambda shape, rng: rng.uniform(0, 1, shape),
    "equal": lambda shape, rng: np.full(shape, rng.standard_normal()),
    "offset": lambda shape, rng: 300 + rng.standard_normal(shape),
    "very-negative": lambda shape, rng: -30000 + 40 * rng.standard_normal(shape),
    "very-positive": lambda shape, rng: 30000 + 40 * rng.standard_normal(shape),
    "lowest": lambda shape, rng: -1e12 * rng.uniform(1, 2, shape),  # below whatever a maximum may wrongly begin at
    "tiny": lambda shape, rng: 1e-4 * rng.standard_normal(shape),
    "big": lambda shape, rng: 60 * rng.standard_normal(shape),
    "outlier": _outlier,
    "growing": lambda shape, rng: np.linspace(0.01, 8, shape[-1]) * (1 + 0.1 * rng.standard_normal(shape)),
    "alternating": _alternating,
    "tie-of-two": _ties(lambda n, rng: 1, lambda n, rng: 256),
    "tie-of-neighbours": _ties(lambda n, rng: 255, lambda n, rng: 256),  # the last lane's and the first lane's
    "tie-across": _ties(lambda n, rng: int(rng.integers(n)), lambda n, rng: int(rng.integers(n))),
    "maximum-last": _ties(lambda n, rng: n - 1),
    "ties": _few,
    "opposed": _opposed,
}

BESIDE: dict[str, Callable[[tuple[int, ...], Rng], Array]] = {
    "opposed": lambda shape, rng: rng.uniform(0.5, 1.5, shape)
}
"""Patterns that the first tensor that takes them has, and what the others then hold instead of normal data."""

WILD = frozenset({"offset", "very-negative", "very-positive", "lowest", "big", "outlier", "opposed"})
"""Patterns that only one tensor of a case has: products of two would leave hardly anything specified."""

INDEPENDENT = frozenset({"normal", "uniform", "tiny", "big", "outlier"})
"""Patterns whose elements are drawn independently, so that the probabilistic bound of sums applies."""
