"""How each ATen operation of a decoder becomes a contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from pytest_webgpu.compiler.errors import Unsupported, where
from pytest_webgpu.compiler.graph import aten, role_of, shape_of
from pytest_webgpu.compiler.lower import Lowering, Rule, Value, whole

RULES: dict[Any, Rule] = {}


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    def add(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(targets, f))
        return f

    return add


def _rows(low: Lowering, node: Any) -> fx.Node:
    """A value as (rows, cols): all but the last dim in one."""
    value = low.value(node)
    cols = value.view.shape[-1]
    return low.tensor(value, (value.view.numel() // cols, cols))


def _flat(low: Lowering, node: Any) -> fx.Node:
    value = low.value(node)
    return low.tensor(value, (value.view.numel(),))


@rule(aten.linear.default)
def linear(low: Lowering, node: fx.Node) -> Value:
    x, weight, *bias = node.args
    b = low.tensor(bias[0]) if bias and bias[0] is not None else None
    return whole(low.emit("linear", x=_rows(low, x), weight=low.tensor(weight), bias=b), shape_of(node))


@rule(aten.embedding.default)
def embedding(low: Lowering, node: fx.Node) -> Value:
    weight, ids = node.args[:2]
    return whole(low.emit("embedding", ids=_flat(low, ids), weight=low.tensor(weight)), shape_of(node))


@rule(aten.index.Tensor)
def gather_rows(low: Lowering, node: fx.Node) -> Value:
    """x[:, ids] of x (1, rows, cols)."""
    x, indices = node.args
    if len(indices) != 2 or indices[0] is not None or shape_of(x)[0] != 1:
        raise Unsupported(f"an index that is no gather of rows: {where(node)}")
    return whole(low.emit("embedding", ids=_flat(low, indices[1]), weight=_rows(low, x)), shape_of(node))


@rule(aten.index_copy.default)
def kv_cache_write(low: Lowering, node: fx.Node) -> Value:
    cache, dim, positions, new = node.args
    role = role_of(cache)
    if dim != 1 or role is None or role.kind != "cache" or positions is not low.positional.positions:
        raise Unsupported(f"an index_copy that is no write of a cache (kv_heads, capacity, head_dim): {where(node)}")
    x = low.tensor(low.view(low.value(new), lambda t: t.transpose(0, 1)))
    return whole(low.emit("kv_cache_write", cache=low.tensor(cache), x=x, start=low.start))


@rule(aten.scaled_dot_product_attention.default)
def attention(low: Lowering, node: fx.Node) -> Value:
    """q (1, heads, tokens, head_dim), k and v (1, heads, capacity, head_dim), a mask that is proven causal."""
    q, k, v, *rest = node.args
    mask = rest[0] if rest else node.kwargs.get("attn_mask")
    if not isinstance(mask, fx.Node) or not low.positional.is_causal(mask):
        raise Unsupported(f"attention whose mask is not causal over the cache: {where(node)}")
    query = low.tensor(low.view(low.value(q), lambda t: t[0].transpose(0, 1)))
    scale = node.kwargs.get("scale")
    out = low.emit(
        "attention", q=query, k=_heads(low, k), v=_heads(low, v), start=low.start,
        scale=shape_of(q)[-1] ** -0.5 if scale is None else scale,
    )  # fmt: skip
    return Value(out, whole(out).view[None].transpose(1, 2))


def _heads(low: Lowering, node: Any) -> fx.Node:
    """Keys or values as (kv_heads, capacity, head_dim): the cache itself where its heads were only repeated."""
    below = node
    while below.target in (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.clone.default):
        below = below.args[0]
    if low.gqa and below.target is aten.expand.default:
        view = low.value(below).view
        if view.dim() == 5 and view.shape[0] == 1 and view.stride(2) == 0:
            _, kv_heads, _, capacity, head_dim = view.shape
            return low.tensor(low.view(low.value(below), lambda t: t[0, :, 0]), (kv_heads, capacity, head_dim))
    return low.tensor(low.view(low.value(node), lambda t: t[0]))


def _elementwise(name: str, *names: str) -> Rule:
    def lower(low: Lowering, node: fx.Node) -> Value:
        operands = node.args[: len(names)]
        if any(not isinstance(a, fx.Node) or shape_of(a) != shape_of(node) for a in operands):
            raise Unsupported(f"{node.target} of a scalar, or of shapes that differ: {where(node)}")
        if node.kwargs.get("alpha", 1) != 1:
            raise Unsupported(f"{node.target} with alpha={node.kwargs['alpha']}: {where(node)}")
        flat = {n: _flat(low, a) for n, a in zip(names, operands, strict=True)}
        return whole(low.emit(name, **flat), shape_of(node))

    return lower


RULES[aten.add.Tensor] = _elementwise("add", "a", "b")
RULES[aten.mul.Tensor] = _elementwise("mul", "a", "b")
RULES[aten.silu.default] = _elementwise("silu", "x")
