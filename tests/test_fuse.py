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
    "rms_norm": (28, 6), "rope": (20, 4), "swiglu": (19, 4), "gqa": (17, 4), "join_qkv": (15, 4),
    "join_gate_up": (14, 4), "rope_cache": (11, 4), "residual": (9, 4), "swiglu_epilogue": (8, 4),
    "norm_prologue": (6, 3), "qkv_epilogue": (5, 3),
}  # fmt: skip
"""Fusions added in turn: operations a layer and besides. At 24 layers 678, 484, 460, ... 147, 123,
one of them for the choice of the token; without any 923."""


@pytest.mark.parametrize("last", LEVELS)
def test_operations_a_layer(last):
    names = list(LEVELS)[: list(LEVELS).index(last) + 1]
    captured = step(1, num_attention_heads=4, head_dim=64)  # heads that lie where a binding can start
    each, besides = LEVELS[last]
    assert len(ops(captured, ",".join(names))) + 1 == 2 * each + besides


def test_operations_at_24_layers():
    assert len(ops(step(1, layers=24))) + 1 == 123
    assert len(ops(step(1, layers=24), "none")) + 1 == 923


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
        lambda x, w: norm(x, w) + torch.rsqrt(x.pow(2).mean(-1, True) + 1e-5),
        lambda x, w: w * (x * torch.rsqrt((x + w).pow(2).mean(-1, True) + 1e-5)),
        lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, True) + x.mean(-1, True))),
    ],
    ids=["besides-another", "other-operand", "no-number"],
)
def test_what_is_no_rms_norm_stays_apart(function):
    assert ops(small(function, **X)).count("rsqrt") == 1


def test_rms_norm_with_a_second_user_of_an_inner_value():
    def function(x, w):
        mean = x.pow(2).mean(-1, True)
        return w * (x * torch.rsqrt(mean + 1e-5)) + mean

    found = ops(small(function, **X))
    assert "rms_norm" not in found
    assert found.count("square") == found.count("mean") == found.count("rsqrt") == 1


@pytest.mark.parametrize(
    ("function", "reason"),
    [(lambda x, w: norm(x, w, dim=0), r"aten.mean.dim along \[0\]"),
     (lambda x, w: w * x.pow(3), "to the power 3"),
     (lambda x, w: torch.cat((x, w[None], x), -1), "cat.default of 3 tensors along dim -1"),
     (lambda x, w: torch.add(x, w, alpha=2), "alpha=2"),
     (lambda x, w: x.cumsum(-1) * w, "no op here computes aten.cumsum.default")],
    ids=["mean-of-a-column", "cube", "three", "alpha", "cumsum"],
)  # fmt: skip
def test_what_no_op_computes_is_named_with_its_line(function, reason):
    with pytest.raises(Unsupported, match=rf"{reason}.*: File \".*steps.py\", line"):
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


def test_rope_of_a_step():
    assert ops(step(1), "rms_norm,rope,gqa,swiglu").count("rope") == 4
    apart = ops(step(1), "rms_norm,gqa,swiglu")
    assert apart.count("neg") == apart.count("cat") == 4
    assert apart.count("embedding") == 3  # rows of cos and of sin are picked once


def turned(x, w):
    return (x * w + torch.cat((-x[..., 32:], x[..., :32]), -1) * w).reshape(1, -1)


def test_what_is_no_rope_stays_apart():
    """Factors that are no table of positions are no rotation by positions, whatever the formula."""
    found = ops(small(turned, x=(1, 1, 1, 64), w=(1, 1, 1, 64)))
    assert "rope" not in found
    assert found.count("neg") == found.count("cat") == 1


def test_gqa_indexes_what_would_be_repeated():
    assert ops(step(1), "rms_norm,rope,swiglu").count("copy") == 4
    assert "copy" not in ops(step(1), "rms_norm,rope,swiglu,gqa")
