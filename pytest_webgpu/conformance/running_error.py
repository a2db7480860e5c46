"""Evaluates plain torch code in float64 while each tensor carries a bound on the error of a correct f32 computation.

A tensor's error (same shape, absolute) is kept as its attribute `running_error`; none means exact. The rules live in
`rules.py`: what each operation may be off by itself (WGSL, "Floating point accuracy"), and how errors of its
arguments travel. Local errors are half of what WGSL promises; the safety factor 2 of `bounds.py` restores them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class BoundError(Exception):
    """The reference uses something through which an error cannot be followed."""


@dataclass(frozen=True)
class Arithmetic:
    """The floating point in which a kernel computes: unit roundoff, least normal and largest finite number."""

    unit: float = 2.0**-24
    least: float = 2.0**-126
    largest: float = 3.4028234663852886e38


F32 = Arithmetic()
F16 = Arithmetic(2.0**-11, 2.0**-14, 65504.0)
ARITHMETIC = {"f32": F32, "f16": F16}


@dataclass(frozen=True)
class Calibration:
    """Absolute errors, at most, of builtins whose accuracy WGSL leaves open or caps generously.

    `sin` and `cos` on [-pi, pi]; beyond it `far` times abs(x) is added. The defaults are the specification's caps
    (2^-11, and 1e-5 for tanh); what an adapter really does is measured by `calibrate.py`.
    """

    sin: float = 2.0**-11
    cos: float = 2.0**-11
    tanh: float = 1e-5
    far: float = 2.0**-22


@dataclass
class Share:
    """One operation's local error, for `explain`."""

    name: str
    line: str


@dataclass(frozen=True)
class Plan:
    """How to evaluate: the arithmetic, whether the terms of sums were drawn independently, calibrated builtins."""

    arithmetic: Arithmetic = F32
    independent: bool = True
    calibration: Calibration = field(default_factory=Calibration)


Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers how the torch operations `names` carry errors: called as rule(run, *args, **kwargs)."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def error_of(tensor: Any) -> Tensor | None:
    """The error that `tensor` carries (a view's is a view of its base's), or None where it is exact."""
    error = getattr(tensor, "running_error", None)
    if error is None and isinstance(tensor, Tensor) and tensor._base is not None:
        base = getattr(tensor._base, "running_error", None)
        if base is not None and base.stride() == tensor._base.stride():
            error = base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return error


def carry(tensor: Tensor, error: Tensor | None) -> Tensor:
    """`tensor` with its error."""
    tensor.running_error = error
    return tensor


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Mapping):
            yield from tensors(value.values())
        elif isinstance(value, (list, tuple)):
            yield from tensors(value)


# Operations that tell about a tensor and not about its elements.
PLAIN = frozenset(
    "size dim stride numel nelement ndimension storage_offset is_floating_point is_contiguous is_complex len "
    "get_device element_size broadcast_shapes result_type promote_types can_cast is_tensor set repr str format hash "
    "requires_grad_ set_grad_enabled manual_seed device dir".split()
)
READS = frozenset("item bool float int index tolist numpy nonzero unique equal allclose array contains".split())
# Tensors made from nothing; a float that f32 cannot hold exactly is rounded once, in a kernel as well.
MADE = frozenset(
    "arange zeros ones full tensor as_tensor scalar_tensor eye empty zeros_like ones_like full_like empty_like "
    "new_zeros new_ones new_full new_empty new_tensor tril_indices triu_indices finfo iinfo".split()
)


class RunningError(TorchFunctionMode):  # type: ignore[misc]
    """The mode under which a reference is evaluated: `with RunningError(plan): reference(...)`.

    `only` keeps the local error of one operation (by index, in order of evaluation) and drops the others'.
    """

    def __init__(self, plan: Plan, only: int | None = None) -> None:
        super().__init__()
        self.plan, self.only = plan, only
        self.unit, self.least, self.largest = plan.arithmetic.unit, plan.arithmetic.least, plan.arithmetic.largest
        self.shares: list[Share] = []
        self.function: Any = None  # the operation at hand
        self.pure: Any = None  # the same where it is not in place
        self.inplace = False
        self._arguments: list[Tensor] = []
        self._name = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, inplace = _name(func)
        if name in PLAIN:
            return func(*args, **kwargs)
        given = list(tensors((args, kwargs)))
        floats = any(t.is_floating_point() or error_of(t) is not None for t in given)
        if name in READS:
            if floats:
                raise BoundError(f"the reference reads a value out of a float tensor ({func.__name__}): {_line()}")
            return func(*args, **kwargs)
        if kwargs.get("out") is not None:
            raise BoundError(f"the reference uses out= ({name}), through which no error is followed: {_line()}")
        if name in MADE:
            return self.made(func(*args, **kwargs))
        if not floats:
            result = func(*args, **kwargs)
            if inplace or not any(t.is_floating_point() for t in tensors((result,))):
                return result
        if name not in RULES:
            raise BoundError(f"the reference uses {name}, for which there is no rule: {_line()}")
        outer = self._arguments, self._name, self.function, self.pure, self.inplace
        self._arguments, self._name, self.function, self.inplace = given, name, func, inplace
        self.pure = getattr(Tensor, name, func) if inplace else func
        try:
            result = RULES[name](self, *args, **kwargs)
            return self._write(args[0], result) if inplace and result is not args[0] and result is not None else result
        finally:
            self._arguments, self._name, self.function, self.pure, self.inplace = outer

    def finish(
        self, value: Tensor, carried: Tensor | None, ulps: Tensor | float = 1.0, absolute: Tensor | float = 0.0
    ) -> Tensor:
        """`value` with the error `carried` from its arguments and the operation's own: half of `ulps`, or absolute."""
        size = value.abs()
        own = size * ulps * self.unit
        own += absolute
        own += self.least
        if self.only is not None and self._share() != self.only:
            own = torch.zeros_like(own)
        error = own if carried is None else own + carried
        if value.numel() and not bool(size.amax() <= self.largest):
            # An infinity that came in (a mask) is exact; one that is formed here may be anything.
            exact = size.isinf() if any(t.isinf().any() for t in self._arguments) else size.new_zeros(()).bool()
            error = torch.where(exact, 0.0, torch.where(size <= self.largest, error, torch.inf))
        return carry(value, error.nan_to_num(torch.inf, torch.inf) if carried is not None else error)

    def error(self, tensor: Tensor) -> Tensor:
        """The error of `tensor`, zeros where it is exact."""
        error = error_of(tensor)
        return torch.zeros_like(tensor, dtype=torch.float64) if error is None else error

    def made(self, result: Any) -> Any:
        """A tensor that came from numbers: exact but for one rounding to the arithmetic's precision."""
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        value = result.double()
        single = value.float().double() if self.plan.arithmetic is F32 else value.half().double()
        return carry(value, None if torch.equal(value, single) else (value - single).abs())

    def number(self, value: Any, like: Tensor | None = None) -> Tensor:
        """An operand as a float64 tensor that carries its error; numbers are rounded once."""
        if isinstance(value, Tensor):
            return value if value.dtype == torch.float64 else carry(value.double(), error_of(value))
        made: Tensor = self.made(torch.tensor(value, dtype=torch.float64))
        return made

    def ensure_error(self, target: Tensor) -> Tensor:
        """The error of a tensor that is about to be written; where it is a view, it is a view of its base's."""
        if error_of(target) is None:
            base = target if target._base is None else target._base
            carry(base, torch.zeros_like(base, dtype=torch.float64))
        error = error_of(target)
        assert error is not None
        return error

    def _write(self, target: Tensor, result: Tensor) -> Tensor:
        """An arithmetic operation in place: value and error are written, also through views."""
        if (error := error_of(result)) is not None:
            self.ensure_error(target).copy_(error)
        elif (old := error_of(target)) is not None:
            old.zero_()
        target.copy_(result)
        return target

    def _share(self) -> int:
        self.shares.append(Share(self._name, _line()))
        return len(self.shares) - 1


def _name(func: Any) -> tuple[str, bool]:
    """The operation's plain name, and whether it writes its first argument."""
    name: str = func.__name__
    if name == "__get__":
        attribute: str = func.__self__.__name__
        return (attribute, False) if attribute in ("T", "mT", "H", "mH") else ("size", False)
    if name in ("__set__", "__setitem__"):
        return name.strip("_"), name == "__setitem__"
    if name.startswith("__"):
        return name.strip("_"), False
    return (name[:-1], True) if name.endswith("_") else (name, False)


def _line() -> str:
    """Where the reference stands: the innermost line that is neither torch's nor this folder's."""
    frame = sys._getframe(1)
    here = __file__.rpartition("running_error")[0]
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(here) and "/torch/" not in path.replace("\\", "/"):
            return f"{path}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "?"
