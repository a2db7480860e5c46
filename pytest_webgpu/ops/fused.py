"""Ops that one dispatch computes together. Each is named after its parts, joined by +, and calls them."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pytest_webgpu.ops import cache
from pytest_webgpu.ops.attention import rotate
from pytest_webgpu.ops.contract import op
from pytest_webgpu.ops.elementwise import swiglu
from pytest_webgpu.ops.linear import linear
from pytest_webgpu.ops.norm import EPS, rms_norm


@op(name="rms_norm+linear", draw={"eps": EPS})
def rms_norm_linear(
    x: Float[Tensor, "rows k"],
    norm_weight: Float[Tensor, "k"],
    weight: Float[Tensor, "n k"],
    bias: Float[Tensor, "n"] | None = None,
    eps: float = 1e-6,
) -> Float[Tensor, "rows n"]:
    """linear(rms_norm(x, norm_weight), weight, bias)"""
    return linear(rms_norm(x, norm_weight, eps), weight, bias)


@op(name="linear+add")
def linear_add(
    x: Float[Tensor, "rows k"],
    weight: Float[Tensor, "n k"],
    residual: Float[Tensor, "rows n"],
    bias: Float[Tensor, "n"] | None = None,
) -> Float[Tensor, "rows n"]:
    """residual + linear(x, weight, bias)"""
    return residual + linear(x, weight, bias)


@op(name="linear+swiglu")
def linear_swiglu(x: Float[Tensor, "rows k"], weight: Float[Tensor, "2*n k"]) -> Float[Tensor, "rows n"]:
    """swiglu(linear(x, weight)): the first n rows of weight are the gate's."""
    return swiglu(linear(x, weight))


@op(name="rms_norm+linear+swiglu", draw={"eps": EPS})
def rms_norm_linear_swiglu(
    x: Float[Tensor, "rows k"], norm_weight: Float[Tensor, "k"], weight: Float[Tensor, "2*n k"], eps: float = 1e-6
) -> Float[Tensor, "rows n"]:
    """swiglu(linear(rms_norm(x, norm_weight), weight)): the first n rows of weight are the gate's."""
    return swiglu(linear(rms_norm(x, norm_weight, eps), weight))


@op(name="swiglu+linear+add")
def swiglu_linear_add(
    x: Float[Tensor, "rows 2*k"], weight: Float[Tensor, "n k"], residual: Float[Tensor, "rows n"]
) -> Float[Tensor, "rows n"]:
    """residual + linear(swiglu(x), weight)"""
    return residual + linear(swiglu(x), weight)


class Rotated(NamedTuple):
    q: Float[Tensor, "tokens heads head_dim"]
    k_cache: Float[Tensor, "kv_heads capacity head_dim"]
    v_cache: Float[Tensor, "kv_heads capacity head_dim"]


QKV = {"where": ["heads % kv_heads == 0", "2*half <= head_dim", "start + tokens <= capacity"]}


@op(name="rope+kv_cache_write", **QKV)
def rope_kv_cache_write(
    qkv: Float[Tensor, "tokens (heads+2*kv_heads)*head_dim"],
    cos: Float[Tensor, "capacity half"],
    sin: Float[Tensor, "capacity half"],
    k_cache: Float[Tensor, "kv_heads capacity head_dim"],
    v_cache: Float[Tensor, "kv_heads capacity head_dim"],
    start: int = 0,
) -> Rotated:
    """Cuts each row into queries, keys and values; rotates queries and keys by position start + t; caches k and v."""
    tokens, kv_heads, head_dim = qkv.shape[0], k_cache.shape[0], k_cache.shape[2]
    rows = qkv.reshape(tokens, -1, head_dim)
    heads = rows.shape[1] - 2 * kv_heads
    q, k, v = rows[:, :heads], rows[:, heads : heads + kv_heads], rows[:, heads + kv_heads :]
    c, s = cos[start : start + tokens], sin[start : start + tokens]
    return Rotated(rotate(q, c, s), cache.write(k_cache, rotate(k, c, s), start), cache.write(v_cache, v, start))


class RotatedJoined(NamedTuple):
    q: Float[Tensor, "tokens heads head_dim"]
    kv_cache: Float[Tensor, "2 kv_heads capacity head_dim"]


@op(name="rms_norm+linear+rope+kv_cache_write", draw={"eps": EPS}, **QKV)
def rms_norm_linear_rope_kv_cache_write(
    x: Float[Tensor, "tokens k"],
    norm_weight: Float[Tensor, "k"],
    weight: Float[Tensor, "(heads+2*kv_heads)*head_dim k"],
    rope_table: Float[Tensor, "2 capacity half"],
    kv_cache: Float[Tensor, "2 kv_heads capacity head_dim"],
    bias: Float[Tensor, "(heads+2*kv_heads)*head_dim"] | None = None,
    start: int = 0,
    eps: float = 1e-6,
) -> RotatedJoined:
    """The whole way from a layer's input to its rotated queries and its cache.

    WebGPU promises 8 storage buffers, so what other ops take apart lies together here, and these read it by offset:
    rope_table is all cosines, then all sines; kv_cache is the keys' cache, then the values'.
    """
    qkv = linear(rms_norm(x, norm_weight, eps), weight, bias)
    q, k, v = rope_kv_cache_write(qkv, rope_table[0], rope_table[1], kv_cache[0], kv_cache[1], start)
    return RotatedJoined(q, torch.stack((k, v)))
