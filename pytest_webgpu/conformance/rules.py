"""How arithmetic carries errors. ULPs are those of WGSL's table ("Floating point accuracy"), or said at the rule.

Monotone functions are evaluated at x + e and x - e, so no derivative is written down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pytest_webgpu.conformance.running_error import BoundError, RunningError, carry, error_of, rule

Function = Callable[..., Tensor]
Ulps = float | Callable[[Tensor, Tensor], Tensor]


def strongest(*errors: Tensor | None) -> Tensor | None:
    """The larger of errors, element by element; None where all are exact."""
    known = [e for e in errors if e is not None]
    largest = known[0] if known else None
    for error in known[1:]:
        largest = torch.maximum(largest, error)
    return largest


def together(*errors: Tensor | None) -> Tensor | None:
    """The sum of errors; None where all are exact."""
    known = [e for e in errors if e is not None]
    return sum(known[1:], known[0]) if known else None


# Sums and products of two.


@rule("add")
def add(run: RunningError, a: Any, b: Any, alpha: float = 1) -> Tensor:
    a, b = run.number(a), run.number(b)
    if alpha != 1:
        b = mul(run, b, alpha)
    sums = [(*t.begun_with, other) for t, other in ((a, b), (b, a)) if hasattr(t, "begun_with")]
    more = strongest(*(rounded(term) for rounded, _, term in sums))
    result = run.finish(a + b, together(error_of(a), error_of(b)), 1.0, 0.0 if more is None else more)
    if more is None or (left := min(n for _, n, _ in sums) - 1) == 0:
        return result
    return unfinished(result, lambda next_: strongest(*(f(term.abs() + next_.abs()) for f, _, term in sums)), left)


def unfinished(total: Tensor, rounded: Callable[[Tensor], Any], terms: int = 2) -> Tensor:
    """`total`, a sum that knows what it rounds off more where it begins with what is added to it.

    `terms`: how many may be added so, a bias and a residual.
    """
    total.begun_with = rounded, terms
    return total


@rule("sub")
def sub(run: RunningError, a: Any, b: Any, alpha: float = 1) -> Tensor:
    return add(run, a, neg(run, run.number(b)), alpha)


@rule("rsub")
def rsub(run: RunningError, a: Any, b: Any) -> Tensor:
    return sub(run, b, a)


@rule("mul")
def mul(run: RunningError, a: Any, b: Any) -> Tensor:
    a, b = run.number(a), run.number(b)
    return run.finish(a * b, linear_in_each(torch.mul, a, b))


def linear_in_each(multiply: Function, a: Tensor, b: Tensor) -> Tensor | None:
    """What the errors of two factors do to anything that is linear in each."""
    ea, eb = error_of(a), error_of(b)
    terms = []
    if eb is not None:
        terms.append(multiply(a.abs(), eb))
    if ea is not None:
        terms.append(multiply(ea, b.abs() if eb is None else b.abs() + eb))
    return together(*terms)


@rule("div", "true_divide", "truediv")
def div(run: RunningError, a: Any, b: Any, rounding_mode: str | None = None) -> Tensor:
    a, b = run.number(a), run.number(b)
    ea, eb = error_of(a), error_of(b)
    value, size = a / b, b.abs()
    carried = None if ea is None else ea / size
    if eb is not None:
        carried = together(carried, value.abs() * eb / size)
        carried = torch.where(size > eb, carried * size / (size - eb), torch.inf)
    quotient = run.finish(value, carried, 3.5)  # 2.5, or a reciprocal of 2.5 and a product
    return quotient if rounding_mode is None else step(run, quotient, getattr(torch, rounding_mode))


@rule("rdiv", "rtruediv")
def rdiv(run: RunningError, a: Any, b: Any) -> Tensor:
    return div(run, b, a)


@rule("floordiv", "floor_divide")
def floordiv(run: RunningError, a: Any, b: Any) -> Tensor:
    return step(run, div(run, a, b), torch.floor)


@rule("neg", "positive")
def neg(run: RunningError, x: Tensor) -> Tensor:
    return carry(-x, error_of(x))


@rule("abs", "absolute")
def absolute(run: RunningError, x: Tensor) -> Tensor:
    return carry(x.abs(), error_of(x))


@rule("square")
def square(run: RunningError, x: Tensor) -> Tensor:
    return mul(run, x, x)


@rule("reciprocal")
def reciprocal(run: RunningError, x: Tensor) -> Tensor:
    return div(run, 1.0, x)


@rule("pow", "float_power")
def power(run: RunningError, x: Any, exponent: Any) -> Tensor:
    """Small whole exponents by products, halves by square roots, all else as WGSL's pow: exp2(y * log2(x))."""
    if isinstance(exponent, (int, float)) and exponent in (-1, -0.5, 0.5, 1, 2, 3, 4):
        if exponent < 0:
            return reciprocal(run, x) if exponent == -1 else monotone(run, x, torch.rsqrt, 2.0)
        if exponent < 1:
            return monotone(run, x, torch.sqrt, 4.5)
        result = x
        for _ in range(int(exponent) - 1):
            result = mul(run, result, x)
        return result
    logarithm = FUNCTIONS["log2"](run, run.number(x))
    return FUNCTIONS["exp2"](run, mul(run, exponent, logarithm))


@rule("rpow")
def rpow(run: RunningError, exponent: Tensor, x: Any) -> Tensor:
    return power(run, x, exponent)


# Functions of one argument.


def monotone(
    run: RunningError, x: Any, function: Function, ulps: Ulps = 1.0, absolute: Ulps = 0.0, exact: bool = False
) -> Tensor:
    x = run.number(x)
    value, e = function(x), error_of(x)
    carried = None
    if e is not None:
        carried = torch.maximum(function(x + e) - value, value - function(x - e)).abs()
    if exact:
        return carry(value, carried)
    own = ulps(x, value) if callable(ulps) else ulps
    return run.finish(value, carried, own, absolute(x, value) if callable(absolute) else absolute)


def step(run: RunningError, x: Tensor, function: Function) -> Tensor:
    return monotone(run, x, function, exact=True)


def lipschitz(
    run: RunningError, x: Tensor, function: Function, constant: float, ulps: float, absolute: Any = 0.0
) -> Tensor:
    """A function that is not monotone but changes by no more than `constant` times its argument's change."""
    e = error_of(x)
    return run.finish(function(x), None if e is None else e * constant, ulps, absolute)


def _exp(x: Tensor, _: Tensor) -> Tensor:
    return 3 + 2 * x.abs().clamp(max=1024)


def _log(x: Tensor, value: Tensor) -> Tensor:
    """3 ULP, but 2^-21 on [0.5, 2] whatever the value (halved here)."""
    return torch.where((x >= 0.5) & (x <= 2), 2.0**-22, 0.0)


# name: (torch's function, ULPs, absolute error). sqrt is 1 / inverseSqrt; sinh, cosh and erf have forms of exp.
MONOTONE: dict[str, tuple[Function, Ulps, Ulps]] = {
    "exp": (torch.exp, _exp, 0.0),
    "exp2": (torch.exp2, _exp, 0.0),
    "log": (torch.log, 3.0, _log),
    "log2": (torch.log2, 3.0, _log),
    "log10": (torch.log10, 4.0, _log),
    "sqrt": (torch.sqrt, 4.5, 0.0),
    "rsqrt": (torch.rsqrt, 2.0, 0.0),
    "atan": (torch.atan, 4096.0, 0.0),
    "erf": (torch.erf, 8.0, 2.5e-7),  # Abramowitz and Stegun 7.1.26, which kernels use, is within 1.5e-7
}
FUNCTIONS: dict[str, Function] = {}
for _name, (_function, _ulps, _absolute) in MONOTONE.items():
    FUNCTIONS[_name] = rule(_name)(lambda run, x, f=_function, u=_ulps, a=_absolute: monotone(run, x, f, u, a))


@rule("floor", "ceil", "round", "trunc", "relu", "sign", "clamp", "clamp_min", "clamp_max", "clip", "hardtanh")
def steps(run: RunningError, x: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
    """Monotone and without any rounding."""
    return step(run, x, lambda t: run.pure(t, *args, **kwargs))


@rule("tanh")
def tanh(run: RunningError, x: Tensor) -> Tensor:
    """Calibrated; WGSL's cap is 1e-5."""
    return monotone(run, x, torch.tanh, 1.0, run.plan.calibration.tanh / 2)


@rule("sigmoid", "special_expit", "expit")
def sigmoid(run: RunningError, x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), exp(x) / (1 + exp(x)), or 0.5 + 0.5 tanh(x / 2). It does not overflow."""
    through_tanh = run.plan.calibration.tanh / 4 + 2 * run.unit
    return monotone(run, x, torch.sigmoid, lambda t, v: (1 - v) * (3 + 3 * t.abs().clamp(max=1024)) + 4, through_tanh)


@rule("sin")
def sin(run: RunningError, x: Tensor) -> Tensor:
    return lipschitz(run, x, torch.sin, 1.0, 1.0, _far(run, x, run.plan.calibration.sin))


@rule("cos")
def cos(run: RunningError, x: Tensor) -> Tensor:
    return lipschitz(run, x, torch.cos, 1.0, 1.0, _far(run, x, run.plan.calibration.cos))


def _far(run: RunningError, x: Tensor, near: float) -> Tensor:
    size = x.abs()
    return (near + torch.where(size > math.pi, size * run.plan.calibration.far, 0.0)) / 2


# Changes of type. In the reference all floats stay float64; a narrower type costs one rounding.


@rule("to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "short", "bool")
def convert(run: RunningError, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    result = run.pure(x, *args, **kwargs)
    if not result.is_floating_point():
        e = error_of(x)
        moves = None if e is None else (x + e).to(result.dtype) - (x - e).to(result.dtype)
        return carry(result, None if moves is None else moves.double().nan_to_num(torch.inf))
    wide = carry(x.to(result.device, torch.float64), error_of(x))
    roundoff = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}.get(result.dtype)
    if roundoff is None or not x.is_floating_point():
        return wide
    return run.finish(wide.clone(), error_of(wide), 2 * roundoff / run.unit)


# Comparisons, choices and logic. A comparison that errors could turn is uncertain: its error is 1.


@rule("gt", "ge", "lt", "le", "eq", "ne")
def compare(run: RunningError, a: Any, b: Any) -> Tensor:
    a, b = run.number(a), run.number(b)
    e = together(error_of(a), error_of(b))
    return carry(run.pure(a, b), None if e is None else ((a - b).abs() <= e).double())


@rule("where")
def where(run: RunningError, condition: Tensor, a: Any = None, b: Any = None) -> Tensor:
    if a is None:
        raise BoundError("where with one argument gives a shape that depends on values")
    a, b = run.number(a), run.number(b)
    ea, eb, unsure = error_of(a), error_of(b), error_of(condition)
    value = torch.where(condition, a, b)
    if ea is None and eb is None and unsure is None:
        return carry(value, None)
    error = torch.where(condition, 0.0 if ea is None else ea, 0.0 if eb is None else eb)
    if unsure is not None:
        either = (a - b).abs() + (strongest(ea, eb) if ea is not None or eb is not None else 0.0)
        error = torch.where(unsure > 0, torch.maximum(either, error), error)
    return carry(value, error)


@rule("and", "or", "xor", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
def logic(run: RunningError, a: Tensor, b: Any) -> Tensor:
    return carry(run.pure(a, b), strongest(error_of(a), error_of(b)))


@rule("invert", "logical_not", "bitwise_not")
def invert(run: RunningError, a: Tensor) -> Tensor:
    return carry(run.pure(a), error_of(a))


@rule("maximum", "minimum", "fmax", "fmin")
def extremum(run: RunningError, a: Any, b: Any) -> Tensor:
    a, b = run.number(a), run.number(b)
    return carry(run.pure(a, b), strongest(error_of(a), error_of(b)))
