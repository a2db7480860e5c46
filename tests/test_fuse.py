"""Each named fusion: where it applies, and where it must not."""

import pytest
import torch

from pytest_webgpu.compiler.errors import UnknownFusion, Unsupported
from pytest_webgpu.compiler.fuse import fuse
from pytest_webgpu.compiler.graph import is_op
from tests.steps import ops, small, step

silu, linear = torch.nn.functional.silu, torch.nn.functional.linear
X = {"x": (1, 64), "w": (64,)}


def norm(x, w, eps=1e-5, dim=-1, keep=True):
    return w * (x * torch.rsqrt(x.pow(2).mean(dim, keep) + eps))


LEVELS = {
    "rms_norm,rope,swiglu": (19, 4), "gqa": (17, 4), "join_qkv": (15, 4), "join_gate_up": (14, 4),
    "rope_cache": (11, 4), "residual": (9, 4), "swiglu_epilogue": (8, 4), "norm_prologue": (6, 3),
    "qkv_epilogue": (5, 3),
}  # fmt: skip
"""Fusions added in turn: operations a layer and besides. At 24 layers 460, 412, ... 147, 123."""


@pytest.mark.parametrize("last", LEVELS)
def test_operations_a_layer(last):
    names = list(LEVELS)[: list(LEVELS).index(last) + 1]
    captured = step(1, num_attention_heads=4, head_dim=64)  # heads that lie where a binding can start
    each, besides = LEVELS[last]
    assert len(ops(captured, ",".join(names))) + 1 == 2 * each + besides


def test_operations_at_24_layers():
    assert len(ops(step(1, layers=24))) + 1 == 123


def test_prefill_fuses_as_decode_does():
    assert ops(step(16))[:-2] == ops(step(1))[:-1]
    assert ops(step(16))[-2:] == ["embedding", "rms_norm+linear"]  # one row, picked before the last norm


def test_unknown_fusion():
    with pytest.raises(UnknownFusion, match="no fusion is named ropes; there are rms_norm, rope"):
        fuse(step(1), "rope,ropes")


@pytest.mark.parametrize("swapped", [False, True])
def test_rms_norm(swapped):
    def function(x, w):
        y = x * torch.rsqrt(torch.add(x.pow(2).mean(-1, True), 1e-5))
        return y * w if swapped else w * y

    lowered, _ = fuse(small(function, **X))
    (node,) = [n for n in lowered.graph.nodes if is_op(n, "rms_norm")]
    assert node.kwargs["eps"] == 1e-5
    assert node.kwargs["weight"].meta["role"].name == "w"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: norm(x, w, dim=0),
        lambda x, w: norm(x, w) + torch.rsqrt(x.pow(2).mean(-1, True) + 1e-5),
        lambda x, w: w * (x * torch.rsqrt((x + w).pow(2).mean(-1, True) + 1e-5)),
        lambda x, w: w * (x * torch.rsqrt(x.pow(3).mean(-1, True) + 1e-5)),
    ],
    ids=["other-dim", "not-the-mean-of-x-alone", "other-operand", "cube"],
)
def test_no_rms_norm(function):
    with pytest.raises(Unsupported, match=r"aten\.(pow|add|mul|mean).*: File \".*steps.py\", line"):
        ops(small(function, **X))


def test_rms_norm_with_a_second_user_of_an_inner_value():
    def function(x, w):
        mean = x.pow(2).mean(-1, True)
        return w * (x * torch.rsqrt(mean + 1e-5)) + mean

    with pytest.raises(Unsupported, match="pow"):
        ops(small(function, **X))


def test_swiglu():
    assert ops(small(lambda x, w: silu(x) * w, x=(1, 64), w=(1, 64)), "swiglu") == ["silu_mul"]
    assert ops(small(lambda x, w: w * silu(x), x=(1, 64), w=(1, 64)), "swiglu") == ["silu_mul"]
    assert ops(small(lambda x, w: silu(x) * w, x=(1, 64), w=(1, 64)), "none") == ["silu", "mul"]
    both = small(lambda x, w: silu(x) * w + silu(x), x=(1, 64), w=(1, 64))
    assert "silu_mul" in ops(both, "swiglu")  # each silu has one user

    def shared(x, w):
        y = silu(x)
        return y * w + y

    assert ops(small(shared, x=(1, 64), w=(1, 64)), "swiglu") == ["silu", "mul", "add"]


def test_add_with_alpha_is_refused():
    with pytest.raises(Unsupported, match="alpha=2"):
        ops(small(lambda x, w: torch.add(x, w, alpha=2), x=(1, 64), w=(1, 64)))


def test_rope_of_a_step():
    assert ops(step(1), "rms_norm,rope,gqa,swiglu").count("rope") == 4
    with pytest.raises(Unsupported, match=r"no op here computes aten\.(neg|cat|mul)|aten\.mul\S* of a scalar"):
        ops(step(1), "rms_norm,gqa,swiglu")


def test_gqa_indexes_what_would_be_repeated():
    assert ops(step(1), "rms_norm,rope,swiglu").count("copy") == 4
    assert "copy" not in ops(step(1), "rms_norm,rope,swiglu,gqa")
