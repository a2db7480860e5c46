"""How sums, products of matrices and orderings carry errors.

A sum of K terms in any order or tree: gamma_K times the sum of their sizes (Higham, Accuracy and Stability, 4.2). Where
the terms were drawn independently a probabilistic bound is far tighter (Higham and Mary 2019): 5 sqrt(K) u times
(|sum| + the terms' 2-norm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pytest_webgpu.conformance.rules import (
    FUNCTIONS,
    add,
    div,
    linear_in_each,
    mul,
    square,
    sub,
    together,
    unfinished,
)
from pytest_webgpu.conformance.running_error import BoundError, RunningError, carry, error_of, rule

Dims = int | Sequence[int] | None


def rounding(run: RunningError, terms: int, value: Tensor, sizes: Tensor, squares: Callable[[], Tensor]) -> Tensor:
    """The rounding of a sum of `terms` products with value, sum of sizes, and sum of squares."""
    u = run.unit
    worst = terms * u / (1 - terms * u) if terms * u < 1 else math.inf
    bound = sizes * worst
    if run.plan.independent and terms > 8:
        likely = (value.abs() + squares().clamp(min=0).sqrt()) * (5 * math.sqrt(terms) * u)
        bound = torch.minimum(bound, likely)
    return bound


def begun(
    run: RunningError, terms: int, value: Tensor, sizes: Tensor, squares: Callable[[], Tensor], own: Tensor
) -> Callable[[Tensor], Tensor]:
    """What a sum rounds off more than `own` where it begins with what is added to it: a bias, a residual."""

    def more(term: Tensor) -> Tensor:
        whole = rounding(run, terms + 1, value + term, sizes + term.abs(), lambda: squares() + term * term)
        return (whole - own).clamp(min=0)

    return more


def _count(x: Tensor, dim: Dims) -> int:
    if dim is None or dim == ():
        return int(x.numel())
    return math.prod(x.shape[d] for d in ([dim] if isinstance(dim, int) else dim))


def _total(x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    return x.sum() if dim is None else x.sum(dim, keepdim=keepdim)


@rule("sum")
def total(run: RunningError, x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    x, e = run.number(x), error_of(x)
    terms = _count(x, dim)
    value = _total(x, dim, keepdim)
    sizes, squares = _total(x.abs(), dim, keepdim), lambda: _total(x * x, dim, keepdim)
    own = rounding(run, terms - 1, value, sizes, squares)
    result = run.finish(value, None if e is None else _total(e, dim, keepdim), 0.0, own)
    return unfinished(result, begun(run, terms - 1, value, sizes, squares, own))


@rule("mean")
def mean(run: RunningError, x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    return div(run, total(run, x, dim, keepdim), float(_count(x, dim)))


@rule("var")
def variance(
    run: RunningError, x: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, correction: Any = None
) -> Tensor:
    """Two passes, or one: the mean of squares minus the square of the mean."""
    fewer = int(unbiased) if correction is None else correction
    count = _count(x, dim)
    middle = mean(run, x, dim, True)
    if dim is None:
        middle = carry(middle.reshape(()), error_of(middle))
    two = div(run, total(run, square(run, sub(run, x, middle)), dim, keepdim), float(count - fewer))
    one = sub(run, mean(run, square(run, x), dim, keepdim), square(run, mean(run, x, dim, keepdim)))
    one = mul(run, one, count / (count - fewer) if count > fewer else 1.0)
    return carry(two, torch.maximum(run.error(two), run.error(one)))


@rule("std")
def deviation(run: RunningError, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return FUNCTIONS["sqrt"](run, variance(run, x, *args, **kwargs))


@rule("norm", "linalg_vector_norm", "vector_norm")
def norm(run: RunningError, x: Tensor, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Tensor:
    if p in (2, "fro"):
        return FUNCTIONS["sqrt"](run, total(run, square(run, x), dim, keepdim))
    if p == 1:
        return total(run, carry(x.abs(), error_of(x)), dim, keepdim)
    return order(run, carry(x.abs(), error_of(x)), lambda t: _largest(t, dim, keepdim))


def _largest(x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    return x.amax() if dim is None else x.amax(dim, keepdim=keepdim)


@rule("cumsum")
def running_sum(run: RunningError, x: Tensor, dim: int) -> Tensor:
    e, value = error_of(x), x.cumsum(dim)
    own = rounding(run, x.shape[dim] - 1, value, x.abs().cumsum(dim), lambda: (x * x).cumsum(dim))
    return run.finish(value, None if e is None else e.cumsum(dim), 0.0, own)


@rule("prod", "cumprod")
def product(run: RunningError, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Relative errors of the factors add up, as do the roundings."""
    e, value = error_of(x), run.pure(x, *args, **kwargs)
    carried = None if e is None else (run.pure(x.abs() + e, *args, **kwargs) - value.abs())
    return run.finish(value, carried, float(x.numel()))


# Whatever is linear in each of two arguments.


def bilinear(run: RunningError, multiply: Callable[..., Tensor], a: Tensor, b: Tensor, terms: int) -> Tensor:
    """Sums of `terms` products. Each product is rounded, or kept whole in an fma."""
    a, b = run.number(a), run.number(b)
    value = multiply(a, b)
    sizes, squares = multiply(a.abs(), b.abs()), lambda: multiply(a * a, b * b)
    own = rounding(run, terms + 1, value, sizes, squares)
    result = run.finish(value, linear_in_each(multiply, a, b), 0.0, own)
    return unfinished(result, begun(run, terms + 1, value, sizes, squares, own))


@rule("matmul", "mm", "bmm", "mv", "dot", "rmatmul", "inner")
def matmul(run: RunningError, a: Tensor, b: Tensor) -> Tensor:
    return bilinear(run, run.pure if run.pure.__name__ != "__rmatmul__" else _swapped, a, b, a.shape[-1])


def _swapped(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(b, a)


@rule("linear")
def linear(run: RunningError, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = bilinear(run, torch.nn.functional.linear, x, weight, x.shape[-1])
    return product if bias is None else add(run, product, bias)


@rule("outer", "ger", "kron")
def outer(run: RunningError, a: Tensor, b: Tensor) -> Tensor:
    return run.finish(run.pure(a, b), linear_in_each(run.pure, a, b))


@rule("einsum")
def einsum(run: RunningError, equation: str, *operands: Any) -> Tensor:
    """Two factors; more are multiplied from the left by torch as well, and are to be written so."""
    factors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    left, _, kept = equation.replace(" ", "").partition("->")
    sizes = {
        c: n for names, f in zip(left.split(","), factors, strict=True) for c, n in zip(names, f.shape, strict=True)
    }
    terms = math.prod(n for c, n in sizes.items() if c not in kept)
    if len(factors) == 1:
        ones = torch.ones((), dtype=torch.float64, device=factors[0].device)
        return bilinear(run, lambda a, _: torch.einsum(equation, a), factors[0], ones, terms)
    if len(factors) != 2:
        raise BoundError("einsum of more than two factors: write it as several")
    return bilinear(run, lambda a, b: torch.einsum(equation, a, b), factors[0], factors[1], terms)


# Orderings: the values move with the errors; an index is uncertain where an error could change it.


def order(run: RunningError, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    e, value = error_of(x), function(x)
    if e is None:
        return carry(value, None)
    return carry(value, torch.maximum(function(x + e) - value, value - function(x - e)))


@rule("amax", "amin", "cummax", "cummin")
def extreme(run: RunningError, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return order(run, x, lambda t: run.pure(t, *args, **kwargs))


@rule("argmax", "argmin", "argsort")
def position(run: RunningError, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    result = run.pure(x, *args, **kwargs)
    return carry(result, _uncertain(x, result.shape))


@rule("max", "min", "sort", "topk", "kthvalue", "median", "mode")
def ordered(run: RunningError, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Values, or (values, indices)."""
    if args and isinstance(args[0], Tensor):  # torch.max(a, b)
        return carry(run.pure(x, args[0]), together(error_of(x), error_of(args[0])))
    result = run.pure(x, *args, **kwargs)
    e = error_of(x)
    if e is None:
        return result
    up, down = run.pure(x + e, *args, **kwargs), run.pure(x - e, *args, **kwargs)
    if isinstance(result, Tensor):
        return carry(result, torch.maximum(up - result, result - down))
    carry(result.values, torch.maximum(up.values - result.values, result.values - down.values))
    carry(result.indices, _uncertain(x, result.indices.shape))
    return result


def _uncertain(x: Tensor, shape: torch.Size) -> Tensor | None:
    """An infinite error for indices, where any two neighbours in order are closer than their errors."""
    e = error_of(x)
    if e is None:
        return None
    ranked, by = x.flatten().sort(descending=True)
    errors = e.flatten()[by]
    close = bool(((ranked[:-1] - ranked[1:]) <= errors[:-1] + errors[1:]).any())
    return torch.full(shape, torch.inf if close else 0.0, dtype=torch.float64, device=x.device)
