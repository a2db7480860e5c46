"""From what a case left behind to a verdict: what is wrong, how far, and what that suggests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pytest_webgpu.conformance.bounds import Bounded
from pytest_webgpu.conformance.execute import Planned, Ran, Variant

MANTISSA = {"f32": 23, "f16": 10}
LEAST_EXPONENT = {"f32": -126, "f16": -14}


@dataclass(frozen=True)
class Element:
    """One element of an output that is off."""

    output: str
    index: tuple[int, ...]
    got: float
    wanted: float
    bound: float
    dtype: str

    @property
    def ratio(self) -> float:
        """Error over bound; infinite where only the exact value is right."""
        error = abs(self.got - self.wanted)
        return error / self.bound if self.bound else float("inf")

    @property
    def ulps(self) -> float:
        """The error in units in the last place of the stored type, at the wanted value."""
        if self.dtype not in MANTISSA:
            return abs(self.got - self.wanted)
        exponent = np.floor(np.log2(max(abs(self.wanted), 2.0 ** LEAST_EXPONENT[self.dtype])))
        return float(abs(self.got - self.wanted) / 2.0 ** (exponent - MANTISSA[self.dtype]))


@dataclass(frozen=True)
class Finding:
    """Something wrong: `cause` in a few words, `evidence` in a sentence."""

    cause: str
    evidence: str
    element: Element | None = None


@dataclass
class Verdict:
    """All that is known of one case: findings (none when it is right), and how much of the bounds was used."""

    findings: list[Finding] = field(default_factory=list)
    headroom: float = 0.0
    elements: int = 0
    unspecified: int = 0
    loosest: float = 0.0  # the largest median bound over mean size of an output

    @property
    def right(self) -> bool:
        return not self.findings

    @property
    def worst(self) -> Element | None:
        """The element of all findings that is furthest outside of its bound; NaN before all."""
        elements = [f.element for f in self.findings if f.element is not None]
        return max(elements, key=lambda e: math.inf if math.isnan(e.ratio) else e.ratio, default=None)


def judge(
    planned: Planned, ran: Mapping[Variant, Ran], wanted: Mapping[str, Bounded], deterministic: bool = True
) -> Verdict:
    """The verdict on one case from all its variants, the likeliest cause first."""
    verdict = Verdict()
    dtypes = {a.name: a.dtype for a in planned.launch.arguments}
    for variant, left in ran.items():
        _memory(verdict, variant, left)
    for name, bounded in wanted.items():
        _values(verdict, name, dtypes[name], ran["base"], bounded, planned)
    for variant in ("again", "reversed", "high", "low"):
        if variant in ran and all(f.cause != _SAME[variant][0] for f in verdict.findings):
            _same(verdict, variant, ran, wanted, deterministic, dtypes)
    verdict.findings.sort(key=lambda f: _ORDER.index(f.cause) if f.cause in _ORDER else len(_ORDER))
    return verdict


_SAME = {
    "again": ("race", "two equal runs differ"),
    "reversed": ("race or order dependence", "with invocations and workgroups numbered backwards the result differs"),
    "high": ("depends on uninitialised memory", "with other values in the outputs and behind the ends of the bindings "
             "the result differs"),
}  # fmt: skip
_SAME["low"] = _SAME["high"]
_ORDER = ["write past the end", "input written", "race", "race or order dependence", "tail not written", "not written",
          "depends on uninitialised memory"]  # fmt: skip


def _memory(verdict: Verdict, variant: str, left: Ran) -> None:
    known = {(f.cause, f.evidence.split("`")[1]) for f in verdict.findings}
    for name, words in left.overrun.items():
        if ("write past the end", name) not in known:
            text = f"{words} words behind the end of `{name}` were overwritten"
            verdict.findings.append(Finding("write past the end", text))
    for name, count in left.changed.items():
        if ("input written", name) not in known:
            verdict.findings.append(Finding("input written", f"{count} bytes of the input `{name}` were changed"))


def _values(verdict: Verdict, name: str, dtype: str, left: Ran, bounded: Bounded, planned: Planned) -> None:
    """Each element within its bound; written so that NaN fails."""
    raw = left.outputs[name]
    got = torch.from_numpy(raw.astype(np.float64)).to(bounded.value.device)
    error = (got - bounded.value).abs()
    open_ = bounded.unspecified
    wrong = ~(error <= bounded.bound) & ~open_
    verdict.elements += got.numel()
    verdict.unspecified += int(open_.sum())
    if not got.numel():
        return
    inexact = (bounded.bound > 0) & ~open_
    if bool(inexact.any()):
        verdict.headroom = max(verdict.headroom, float((error / bounded.bound)[inexact].nan_to_num(torch.inf).max()))
        size = float(bounded.value[inexact].abs().mean())
        if size > 64 * 2.0 ** LEAST_EXPONENT[dtype]:  # else flushed subnormals decide
            verdict.loosest = max(verdict.loosest, float(bounded.bound[inexact].median()) / size)
    if not bool(wrong.any()):
        return
    badness = torch.where(wrong, (error / bounded.bound).nan_to_num(torch.inf, torch.inf), -1.0)
    if bool(badness.isinf().any()):  # NaN, or an element that must be exact: the first of those that are furthest off
        badness = torch.where(badness.isinf(), error.nan_to_num(torch.inf, torch.inf), -1.0)
    index = tuple(int(i) for i in np.unravel_index(int(badness.flatten().argmax()), raw.shape))
    worst = Element(name, index, float(got[index]), float(bounded.value[index]), float(bounded.bound[index]), dtype)
    count, size = int(wrong.sum()), got.numel()
    where = wrong.flatten().cpu().numpy()
    cause = _unwritten(left, name, where) or _cause(planned, name, got, bounded, wrong)
    places = np.flatnonzero(where)
    span = f"element {places[0]}" if count == 1 else f"elements {places[0]} to {places[-1]}"
    verdict.findings.append(Finding(cause, f"{count} of {size} elements of `{name}` are wrong ({span}, flat)", worst))


def _unwritten(left: Ran, name: str, wrong: NDArray[np.bool_]) -> str | None:
    """Whether the wrong elements still hold the fill, and whether they are the last ones."""
    raw = left.raw[name]
    width = max(1, raw.size // max(1, wrong.size))
    fill = np.frombuffer(left.fill.to_bytes(4, "little") * (raw.size // 4 + 1), np.uint8)[: raw.size]
    untouched = (raw == fill)[: wrong.size * width].reshape(-1, width).all(1)
    if not untouched[wrong].all():
        return None
    first = int(np.flatnonzero(wrong)[0])
    return "tail not written" if wrong[first:].all() and first > 0 else "not written"


def _cause(planned: Planned, name: str, got: Any, bounded: Bounded, wrong: Any) -> str:
    if name in planned.inputs:
        before = torch.from_numpy(planned.inputs[name].astype(np.float64)).to(got.device)
        if bool((got == before)[wrong].all()):
            return "not written (the old content is still there)"
        if bool((bounded.value == before)[wrong].all()):
            return "written outside its slice"
    if bool(got[wrong].isnan().any()):
        return "wrong value: NaN"
    specified = ~bounded.unspecified
    if got.numel() > 2 and bool(specified.all()):
        mine, theirs = got.flatten().sort().values, bounded.value.flatten().sort().values
        slack = bounded.bound.max()
        if bool(((mine - theirs).abs() <= slack).all()) and float(theirs[-1] - theirs[0]) > 4 * float(slack):
            return "right values in wrong places"
    return "wrong value"


def _same(
    verdict: Verdict, variant: Any, ran: Mapping[Any, Ran], wanted: Mapping[str, Bounded], deterministic: bool,
    dtypes: Mapping[str, str],
) -> None:  # fmt: skip
    """Bit for bit the same as the base run; by the bound where the kernel says that bits may differ."""
    cause, text = _SAME[variant]
    for name, bounded in wanted.items():
        base, other = ran["base"].outputs[name], ran[variant].outputs[name]
        if deterministic:
            width = base.dtype.itemsize
            differs = (ran["base"].raw[name] != ran[variant].raw[name]).reshape(-1, width).any(1).reshape(base.shape)
        else:
            error = np.abs(other.astype(np.float64) - bounded.value.cpu().numpy())
            differs = ~(error <= bounded.bound.cpu().numpy()) & ~bounded.unspecified.cpu().numpy()
        if not differs.any():
            continue
        index = tuple(int(i) for i in np.argwhere(differs)[0])
        element = Element(
            name, index, float(other[index]), float(bounded.value[index]), float(bounded.bound[index]), dtypes[name]
        )
        evidence = f"{text}: {int(differs.sum())} of {base.size} elements of `{name}`, at {list(index)} " \
                   f"{base[index]!s} became {other[index]!s}"  # fmt: skip
        verdict.findings.append(Finding(cause, evidence, element))
        return
