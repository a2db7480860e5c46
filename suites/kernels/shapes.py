"""The shapes at which kernels are timed: those of Qwen2.5-0.5B for so many tokens at once."""

from __future__ import annotations

from typing import Any

from pytest_webgpu.qwen2.config import SHAPES

CAPACITY = 1024
VOCAB = 32768  # a part of the 151,936 rows that fits the default limit of a binding, 128 MiB, in f32
SOFTWARE_VOCAB = 4096  # one that a processor is done with in milliseconds


def dims_of(op: str, tokens: int, software: bool = False) -> dict[str, int] | None:
    """Dims of the op for `tokens` tokens; None for an op that the model has no shape for."""
    vocab = SOFTWARE_VOCAB if software else VOCAB
    model: dict[str, Any] = SHAPES["qwen2.5-0.5b"]
    hidden, inner, heads = model["hidden_size"], model["intermediate_size"], model["num_attention_heads"]
    groups = {"heads": heads, "kv_heads": model["num_key_value_heads"], "head_dim": hidden // heads}
    cache = {"capacity": CAPACITY, "half": groups["head_dim"] // 2}
    qkv = (heads + 2 * groups["kv_heads"]) * groups["head_dim"]
    only = {name: groups[name] for name in ("heads", "head_dim")}
    known: dict[str, dict[str, int]] = {
        **{name: {"n": tokens * inner} for name in ("add", "mul", "silu", "silu_mul", "cast")},
        **{name: {"rows": tokens, "cols": hidden} for name in ("rms_norm", "softmax", "sum", "mean", "max")},
        "argmax": {"rows": tokens, "cols": vocab},
        "top_k": {"rows": tokens, "cols": vocab, "k": 8},
        "argmax+advance": {"vocab": vocab, "capacity": CAPACITY},
        "embedding": {"rows": tokens, "vocab": vocab, "cols": hidden},
        "swiglu": {"rows": tokens, "cols": inner},
        "linear": {"rows": tokens, "k": hidden, "n": vocab if tokens == 1 else qkv},
        "linear_q4": {"rows": tokens, "blocks": hidden // 32, "n": inner},
        "linear+add": {"rows": tokens, "k": hidden, "n": hidden},
        "linear+swiglu": {"rows": tokens, "k": hidden, "n": inner},
        "rms_norm+linear": {"rows": tokens, "k": hidden, "n": qkv},
        "rms_norm+linear+swiglu": {"rows": tokens, "k": hidden, "n": inner},
        "swiglu+linear+add": {"rows": tokens, "k": inner, "n": hidden},
        "rope": {"tokens": tokens, **only, **cache},
        "rope_angles": {"tokens": tokens, **only},
        "kv_cache_write": {
            "tokens": tokens,
            "heads": groups["kv_heads"],
            "head_dim": groups["head_dim"],
            "capacity": CAPACITY,
        },
        "attention": {"tokens": tokens, **groups, "capacity": CAPACITY},
        "rope+kv_cache_write": {"tokens": tokens, **groups, **cache},
        "rms_norm+linear+rope+kv_cache_write": {"tokens": tokens, "k": hidden, **groups, **cache},
    }
    return known.get(op)


def scalars_of(op: str, tokens: int) -> dict[str, float]:
    """Scalars other than the op's defaults: attention over a cache that is half full."""
    found: dict[str, float] = {}
    if op == "attention":
        found["scale"] = 0.125
    if "kv_cache_write" in op or op == "attention":
        found["start"] = CAPACITY // 2 - tokens
    return found
