"""How each ATen operation of a decoder becomes a contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from pytest_webgpu.compiler.errors import Unsupported, where
from pytest_webgpu.compiler.graph import aten, role_of, shape_of
from pytest_webgpu.compiler.lower import Lowering, Rule, Value, four, whole

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


@rule(aten.add.Tensor, aten.mul.Tensor)
def add_or_mul(low: Lowering, node: fx.Node) -> Value:
    """Of equal shapes that lie contiguous, of views that are broadcast, or with a number."""
    name = "add" if node.target is aten.add.Tensor else "mul"
    if node.kwargs.get("alpha", 1) != 1:
        raise Unsupported(f"{node.target} with alpha={node.kwargs['alpha']}: {where(node)}")
    a, b, shape = node.args[0], node.args[1], shape_of(node)
    if not isinstance(b, fx.Node):
        return whole(low.emit(f"{name}_scalar", x=_flat(low, a), value=float(b)), shape)
    values = low.value(a), low.value(b)
    if all(tuple(v.view.shape) == shape and v.view.is_contiguous() for v in values):
        return whole(low.emit(name, a=_flat(low, a), b=_flat(low, b)), shape)
    operands = low.strided("a", values[0], shape) | low.strided("b", values[1], shape)
    return whole(low.emit(f"{name}_broadcast", **_sizes(shape), **operands), shape)


@rule(aten.neg.default)
def neg(low: Lowering, node: fx.Node) -> Value:
    shape = shape_of(node)
    return whole(low.emit("neg", **_sizes(shape), **low.strided("a", low.value(node.args[0]), shape)), shape)


@rule(aten.cat.default)
def cat(low: Lowering, node: fx.Node) -> Value:
    """Two tensors behind each other along the last dim."""
    tensors, shape = node.args[0], shape_of(node)
    axis = node.args[1] if len(node.args) > 1 else 0
    if len(tensors) != 2 or axis not in (-1, len(shape) - 1):
        raise Unsupported(f"{node.target} of {len(tensors)} tensors along dim {axis}: {where(node)}")
    operands: dict[str, Any] = {}
    for name, tensor in zip("ab", tensors, strict=True):
        operands |= low.strided(name, low.value(tensor), shape_of(tensor))
        operands[f"{name}_cols"] = shape_of(tensor)[-1]
    rows = {name: size for name, size in _sizes(shape).items() if name != "d3"}
    return whole(low.emit("cat", **rows, **operands), shape)


def _sizes(shape: tuple[int, ...]) -> dict[str, int]:
    sizes, _ = four(list(shape), [0] * len(shape))
    return {f"d{i}": size for i, size in enumerate(sizes)}


@rule(aten.silu.default, aten.rsqrt.default)
def unary(low: Lowering, node: fx.Node) -> Value:
    name = "silu" if node.target is aten.silu.default else "rsqrt"
    return whole(low.emit(name, x=_flat(low, node.args[0])), shape_of(node))


@rule(aten.pow.Tensor_Scalar)
def square(low: Lowering, node: fx.Node) -> Value:
    if node.args[1] != 2:
        raise Unsupported(f"{node.target} to the power {node.args[1]}: {where(node)}")
    return whole(low.emit("square", x=_flat(low, node.args[0])), shape_of(node))


@rule(aten.mean.dim)
def mean(low: Lowering, node: fx.Node) -> Value:
    """Of each row."""
    x, dims = node.args[:2]
    if list(dims) not in ([-1], [len(shape_of(x)) - 1]):
        raise Unsupported(f"{node.target} along {list(dims)}: {where(node)}")
    return whole(low.emit("mean", x=_rows(low, x)), shape_of(node))
