"""Fusions around matrix products: positive and negative."""

import torch

from pytest_webgpu.compiler.fuse import fuse
from pytest_webgpu.compiler.graph import role_of
from tests.steps import ops, small, step

silu, linear = torch.nn.functional.silu, torch.nn.functional.linear
PAIR = {"x": (1, 64), "g": (128, 64), "u": (128, 64)}
ROWS = {"x": (2, 64), "g": (128, 64), "u": (128, 64)}
RES = {"x": (1, 64), "w": (64, 64)}


def gated(x, g, u):
    return silu(linear(x, g)) * linear(x, u)


def without(*names):
    """A library that lacks these ops."""
    return {"refuse": lambda node: f"no {node.target.name}" if node.target.name in names else None}


def test_join_gate_up():
    assert ops(small(gated, **PAIR), "swiglu,join_gate_up") == ["linear", "swiglu"]
    assert ops(small(gated, **PAIR), "join_gate_up") == ["linear", "silu", "mul"]


def test_join_gate_up_without_a_swiglu_kernel():
    assert ops(small(gated, **PAIR), "swiglu,join_gate_up", **without("swiglu")) == ["linear", "silu_mul"]
    rows = small(lambda *t: gated(*t)[:1], **ROWS)
    assert ops(rows, "swiglu,join_gate_up", **without("swiglu")) == ["linear", "linear", "silu_mul"]


def test_what_could_not_be_joined_is_not_kept_beside():
    def refuse(node):
        return "too wide" if node.kwargs["weight"].meta["val"].shape[0] == 256 else None

    lowered, notes = fuse(small(gated, **PAIR), "swiglu,join_gate_up", refuse)
    assert notes == {"join_gate_up: too wide": 1}
    assert {n.name for n in lowered.graph.nodes if role_of(n) and role_of(n).kind == "weight"} == {"x", "g", "u"}


def test_no_join_of_other_operands():
    other = small(lambda x, g, u: silu(linear(x, g)) * linear(x + x, u), **PAIR)
    assert ops(other, "swiglu,join_gate_up").count("linear") == 2
    biased = small(lambda x, g, u, b: silu(linear(x, g, b)) * linear(x, u), **PAIR, b=(128,))
    assert ops(biased, "swiglu,join_gate_up").count("linear") == 2


def test_swiglu_epilogue():
    names = "swiglu,join_gate_up,swiglu_epilogue"
    assert ops(small(gated, **PAIR), names) == ["linear+swiglu"]
    biased = small(lambda x, g, u, b: silu(linear(x, g, b)) * linear(x, u, b), **PAIR, b=(128,))
    assert ops(biased, names) == ["linear", "swiglu"]


def test_residual_in_either_order():
    for function in (lambda x, w: linear(x, w) + x, lambda x, w: x + linear(x, w)):
        assert ops(small(function, **RES), "residual") == ["linear+add"]


def test_no_residual():
    def twice(x, w):
        y = linear(x, w)
        return (y + x) * y

    assert "linear+add" not in ops(small(twice, **RES), "residual")
    assert ops(small(lambda x, w: linear(x, w) + x, **RES), "residual", **without("linear+add")) == ["linear", "add"]

    def itself(x, w):
        y = linear(x, w)
        return y + y

    assert ops(small(itself, **RES), "residual") == ["linear", "add"]


def rms(x, n):
    return n * (x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6))


def test_norm_prologue():
    fused = small(lambda x, n, w: linear(rms(x, n), w), x=(1, 64), n=(64,), w=(8, 64))
    assert ops(fused, "rms_norm,norm_prologue") == ["rms_norm+linear"]
    chain = small(lambda x, n, g, u: gated(rms(x, n), g, u), x=(1, 64), n=(64,), g=(128, 64), u=(128, 64))
    assert ops(chain) == ["rms_norm+linear+swiglu"]


def test_no_norm_prologue_for_two_readers():
    def function(x, n, w):
        y = rms(x, n)
        return linear(y, w) + y

    read_twice = small(function, x=(1, 64), n=(64,), w=(64, 64))
    assert ops(read_twice, "rms_norm,norm_prologue") == ["rms_norm", "linear", "add"]


def test_join_qkv_only_where_nothing_is_copied():
    """tiny's K has 32 columns: V would start where no binding can. rope_cache takes the product as it is."""
    names = "rms_norm,rope,swiglu,gqa,join_qkv"
    assert ops(step(1), names).count("linear") == 15
    assert ops(step(1), f"{names},rope_cache").count("linear") == 11
    assert ops(step(1), f"{names},rope_cache", **without("rope+kv_cache_write")).count("rope") == 4


def test_qkv_epilogue_needs_all_of_it():
    assert ops(step(1)).count("rms_norm+linear+rope+kv_cache_write") == 2
    left = ops(step(1), **without("rms_norm+linear+rope+kv_cache_write"))
    assert left.count("rope+kv_cache_write") == left.count("rms_norm+linear+swiglu") == 2


def test_a_swapped_kernel_is_not_fused_away():
    """The user's silu_mul runs as a step of its own, whatever would swallow it."""
    found = ops(step(1), swapped=lambda node: node.target.name == "silu_mul")
    assert found.count("silu_mul") == 2
    assert not any("swiglu" in name for name in found)
