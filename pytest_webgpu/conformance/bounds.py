"""How far a correct implementation may be off, element by element, from the contract's own torch function.

bound = 2 x (running error) + the rounding of the stored type + what flushed subnormals may lose.
An element that was only moved has no error: it must be equal. Where the bound is infinite (an overflow, an index that
an error could change) WGSL promises nothing, and the element is unspecified.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pytest_webgpu.conformance.running_error import ARITHMETIC, Calibration, Plan, RunningError, carry, error_of
from pytest_webgpu.ops.contract import Contract

SAFETY = 2.0
for _module in ("formulas", "rules", "selections", "sums"):
    # Each registers its rules. `from package import module` would be content with one that pytester has made the
    # interpreter forget, whose rules went to a registry that is no more.
    importlib.import_module(f"pytest_webgpu.conformance.{_module}")


@dataclass(frozen=True)
class Bounded:
    """What an output should be and how far it may be off: float64, absolute, in the output's shape."""

    value: Tensor
    bound: Tensor

    @property
    def unspecified(self) -> Tensor:
        """Where nothing is promised."""
        return ~self.bound.isfinite()


def reference_with_bound(
    contract: Contract,
    inputs: Mapping[str, Tensor],
    scalars: Mapping[str, float] | None = None,
    dtypes: Mapping[str, str] | None = None,
    independent: bool = True,
    calibration: Calibration | None = None,
) -> dict[str, Bounded]:
    """The outputs by name, from the inputs exactly as stored.

    `dtypes` says as what each output is stored ("f32" where it says nothing); `independent`, that the elements of the
    inputs were drawn independently, which makes sums far sharper. Raises BoundError where a reference reads out
    values (`.item()`) or uses an operation that has no rule.
    """
    plan = Plan(ARITHMETIC[contract.accumulate], independent, calibration or Calibration())
    exact = _evaluate(contract, contract.fn, inputs, scalars or {}, RunningError(plan))
    for form in contract.forms:
        other = _evaluate(contract, form, inputs, scalars or {}, RunningError(plan))
        for name, tensor in exact.items():
            distance = (other[name] - tensor).abs().nan_to_num(torch.inf)
            carry(tensor, torch.maximum(_error(tensor), _error(other[name]) + distance))
    return {name: stored(tensor, error_of(tensor), (dtypes or {}).get(name, "f32")) for name, tensor in exact.items()}


def _evaluate(
    contract: Contract, fn: Any, inputs: Mapping[str, Tensor], scalars: Mapping[str, float], run: RunningError
) -> dict[str, Tensor]:
    written = {o.name for o in contract.outputs if o.inplace}
    wanted = {"float": torch.float64, "int": torch.int64, "bool": torch.bool}
    given = {n: t.to(wanted[contract.argument(n).kind], copy=n in written) for n, t in inputs.items()}
    # A fresh object for each, so that no error of another evaluation sticks to it.
    arguments = contract.arguments({n: t.view(t.shape) for n, t in given.items()}, scalars)
    with run:
        result = fn(**arguments)
    return contract.named(result)


def _error(tensor: Tensor) -> Tensor:
    error = error_of(tensor)
    return torch.zeros_like(tensor, dtype=torch.float64) if error is None else error


def stored(value: Tensor, error: Tensor | None, dtype: str) -> Bounded:
    """The value and bound of an output that is stored as f32, f16, i32 or u32."""
    if not value.is_floating_point():
        uncertain = torch.zeros_like(value, dtype=torch.float64) if error is None else error
        return Bounded(value.double(), torch.where(uncertain > 0, torch.inf, 0.0))
    half = dtype == "f16"
    kept = value.to(torch.float16 if half else torch.float32).double() == value
    if error is None:
        slack = torch.zeros_like(value)
    else:
        slack, kept = SAFETY * error, kept & (error == 0)
    reach = value.abs() + slack
    least, largest = (2.0**-14, 65504.0) if half else (2.0**-126, 3.4028234663852886e38)
    # f16: either neighbour, one unit in the last place (WGSL leaves the direction free). f32: the last operation's
    # rounding is in its error already.
    ulp = torch.exp2(torch.floor(torch.log2(reach.clamp(min=least))) - 10) if half else reach * 2.0**-24
    flushed = torch.where(value.abs() - slack < least, reach.clamp(max=least), 0.0)
    bound = torch.where(kept, 0.0, slack + ulp + flushed)
    beyond = ~(reach <= largest) if not half else ~(reach + ulp <= largest)
    return Bounded(value, torch.where(beyond | bound.isnan(), torch.inf, bound))


def disagreement(one: Mapping[str, Bounded], other: Mapping[str, Bounded]) -> str | None:
    """In words, where two references of the same inputs (on the CPU and on CUDA) differ by more than float64 explains.

    They may differ by a thousandth of the bound; what is exact must be equal, what is unspecified the same.
    """
    for name, mine in one.items():
        theirs = other[name].value.to(mine.value.device)
        bound = torch.minimum(mine.bound, other[name].bound.to(mine.bound.device))
        apart = (mine.value - theirs).abs()
        wrong = ~(apart <= 1e-3 * bound + 1e-12 * mine.value.abs()) & bound.isfinite()
        if bool(wrong.any()):
            index = tuple(int(i) for i in wrong.nonzero()[0])
            return f"{name}{list(index)} is {float(mine.value[index])!r} on one, {float(theirs[index])!r} on the other"
    return None


def explain(
    contract: Contract,
    inputs: Mapping[str, Tensor],
    scalars: Mapping[str, float],
    output: str,
    index: tuple[int, ...],
    independent: bool = True,
    calibration: Calibration | None = None,
) -> list[tuple[str, str, float]]:
    """Which operation owns which share of an element's bound: (operation, file:line, share), largest first."""
    plan = Plan(ARITHMETIC[contract.accumulate], independent, calibration or Calibration())
    listing = RunningError(plan, only=-1)
    _evaluate(contract, contract.fn, inputs, scalars, listing)
    shares: dict[tuple[str, str], float] = {}
    for i, share in enumerate(listing.shares):
        result = _evaluate(contract, contract.fn, inputs, scalars, RunningError(plan, only=i))[output]
        key = (share.name, share.line)
        shares[key] = shares.get(key, 0.0) + float(_error(result)[index])
    whole = sum(shares.values()) or 1.0
    return sorted(((n, w, v / whole) for (n, w), v in shares.items() if v > 0), key=lambda s: -s[2])
