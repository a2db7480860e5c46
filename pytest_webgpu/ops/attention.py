"""Rotary positions and attention over a cache. Shapes: tokens, heads, head_dim; the cache has its heads first."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pytest_webgpu.ops.contract import below, op


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The half-split rotation (Su et al. 2021; as Llama and Qwen2 store it) of the first 2 * half of the last axis.

    x is (tokens, heads, head_dim), cos and sin are (tokens, half); what lies beyond 2 * half is left as it is.
    """
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    c, s = cos[:, None, :], sin[:, None, :]
    return torch.cat((first * c - second * s, second * c + first * s, rest), -1)


@op(where=["2*half <= head_dim"], draw={"positions": below("capacity")})
def rope(
    x: Float[Tensor, "tokens heads head_dim"],
    cos: Float[Tensor, "capacity half"],
    sin: Float[Tensor, "capacity half"],
    positions: Int[Tensor, "tokens"],
) -> Float[Tensor, "tokens heads head_dim"]:
    """Rotary position embedding with tables of cosines and sines, a row a position; half-split."""
    return rotate(x, cos[positions], sin[positions])


@op(where=["head_dim % 2 == 0"], draw={"positions": below("600"), "base": [10000.0, 1000000.0, 500.0]})
def rope_angles(
    x: Float[Tensor, "tokens heads head_dim"], positions: Int[Tensor, "tokens"], base: float = 10000.0
) -> Float[Tensor, "tokens heads head_dim"]:
    """Rotary position embedding that computes its angles: position * base^(-2 i / head_dim); half-split."""
    half = x.shape[-1] // 2
    exponents = torch.arange(half, dtype=x.dtype, device=x.device) * (-2.0 / x.shape[-1])
    angles = positions.to(x.dtype)[:, None] * torch.pow(base, exponents)
    return rotate(x, torch.cos(angles), torch.sin(angles))


# Scores of 1e5 and more have errors that make almost any softmax right: such data goes to the values, but for
# `opposed`, which shows a maximum that begins too high.
SCORED = [
    "normal",
    "uniform",
    "equal",
    "offset",
    "tiny",
    "big",
    "outlier",
    "growing",
    "alternating",
    "tie-of-two",
    "ties",
    "opposed",
]


@op(
    where=["heads % kv_heads == 0", "start + tokens <= capacity"],
    draw={"scale": [1.0, 0.125, 0.08838834764831845], "q": SCORED, "k": SCORED},
)
def attention(
    q: Float[Tensor, "tokens heads head_dim"],
    k: Float[Tensor, "kv_heads capacity head_dim"],
    v: Float[Tensor, "kv_heads capacity head_dim"],
    start: int = 0,
    scale: float = 1.0,
) -> Float[Tensor, "tokens heads head_dim"]:
    """Causal attention over a cache: query t sees its positions 0 to start + t. Query head h reads h // group."""
    tokens, heads, head_dim = q.shape
    kv_heads, end = k.shape[0], start + tokens
    groups = q.reshape(tokens, kv_heads, heads // kv_heads, head_dim).permute(1, 2, 0, 3)
    scores = torch.matmul(groups, k[:, None, :end].transpose(-1, -2)) * scale
    unseen = torch.ones(tokens, end, dtype=torch.bool, device=q.device).triu(start + 1)
    weights = torch.softmax(scores.masked_fill(unseen, float("-inf")), -1)
    return torch.matmul(weights, v[:, None, :end]).permute(2, 0, 1, 3).reshape(tokens, heads, head_dim)
