"""Patterns of ATen operations that are one op: RMS norm, rotary positions, SwiGLU. Each is a named fusion."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import fx

from pytest_webgpu.compiler.graph import aten, role_of, shape_of
from pytest_webgpu.compiler.lower import Composite, Lowering, Value, whole
from pytest_webgpu.compiler.matcher import Call, Match, X, match

MUL, ADD, POW = aten.mul.Tensor, aten.add.Tensor, aten.pow.Tensor_Scalar
LAST = 9223372036854775807  # the end of a slice that has none


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


RMS_NORM = Call(
    MUL,
    X("weight"),
    Call(
        MUL,
        X("x"),
        Call(
            aten.rsqrt.default,
            Call(ADD, Call(aten.mean.dim, Call(POW, X("x"), 2), [-1], True), X("eps", _number), exact=True),
        ),
        commutative=True,
    ),
    commutative=True,
)

ROPE = Call(
    ADD,
    Call(MUL, X("x"), X("cos"), commutative=True),
    Call(
        MUL,
        Call(
            aten.cat.default,
            [
                Call(aten.neg.default, Call(aten.slice.Tensor, X("x"), X("dim"), X("half"), LAST)),
                Call(aten.slice.Tensor, X("x"), X("dim"), 0, X("half")),
            ],
            X("axis"),
        ),
        X("sin"),
        commutative=True,
    ),
    commutative=True,
    exact=True,
)

SWIGLU = Call(MUL, Call(aten.silu.default, X("gate")), X("up"), commutative=True)


def find(low: Lowering, names: Collection[str]) -> dict[fx.Node, tuple[Composite, Match]]:
    """Every composite of the named fusions, by the node that gives its result. No two share a node."""
    found: dict[fx.Node, tuple[Composite, Match]] = {}
    taken: set[fx.Node] = set()
    for node in low.captured.graph.nodes:
        for build, candidate in _candidates(low, node, names):
            if not candidate.inner & taken:
                found[node] = (build, candidate)
                taken |= candidate.inner
                break
    return found


def _candidates(low: Lowering, node: fx.Node, names: Collection[str]) -> Iterator[tuple[Composite, Match]]:
    if node.target not in (MUL, ADD):
        return
    for name, pattern, accept, build in (
        ("rms_norm", RMS_NORM, _is_norm, _norm),
        ("rope", ROPE, _is_rope, _rope),
        ("swiglu", SWIGLU, _same_shapes, _silu_mul),
    ):
        if name in names and (candidate := match(node, pattern)) is not None and accept(low, candidate):
            yield build, candidate


def _is_norm(low: Lowering, m: Match) -> bool:
    weight, x = m["weight"], m["x"]
    role = role_of(weight)
    return role is not None and role.kind == "weight" and shape_of(weight) == shape_of(x)[-1:]


def _norm(low: Lowering, m: Match) -> Value:
    shape = shape_of(m["x"])
    x = low.tensor(m["x"], (torch.Size(shape[:-1]).numel(), shape[-1]))
    return whole(low.emit("rms_norm", x=x, weight=low.tensor(m["weight"]), eps=float(m["eps"])), shape)


def _is_rope(low: Lowering, m: Match) -> bool:
    """x is (1, heads, tokens, head_dim); the angles, (1, 1, tokens, head_dim), say the same twice."""
    if len(shape := shape_of(m["x"])) != 4 or shape[0] != 1 or shape[2] != low.captured.tokens:
        return False
    half, angles = shape[3] // 2, (1, 1, shape[2], shape[3])
    if m["half"] != half or m["dim"] not in (3, -1) or m["axis"] not in (3, -1):
        return False
    tables = [m["cos"], m["sin"]]
    if any(t not in low.positional.nodes or shape_of(t) != angles for t in tables):
        return False
    return all(torch.equal(rows[:, :half], rows[:, half:]) for rows in map(low.positional.table, tables))


def _rope(low: Lowering, m: Match) -> Value:
    half = shape_of(m["x"])[3] // 2
    x = low.tensor(low.view(low.value(m["x"]), lambda t: t[0].transpose(0, 1)))
    both = whole(low.constant("rope", torch.stack([low.positional.table(m[n])[:, :half] for n in ("cos", "sin")])))
    cos, sin = low.tensor(low.view(both, lambda t: t[0])), low.tensor(low.view(both, lambda t: t[1]))
    rotated = low.emit("rope", x=x, cos=cos, sin=sin, positions=low.start)
    return Value(rotated, whole(rotated).view[None].transpose(1, 2))


def _same_shapes(low: Lowering, m: Match) -> bool:
    return all(isinstance(m[n], fx.Node) and shape_of(m[n]) == shape_of(m.root) for n in ("gate", "up"))


def _silu_mul(low: Lowering, m: Match) -> Value:
    count = torch.Size(shape_of(m.root)).numel()
    gate, up = (low.tensor(m[n], (count,)) for n in ("gate", "up"))
    return whole(low.emit("silu_mul", gate=gate, up=up), shape_of(m.root))
