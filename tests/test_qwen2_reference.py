"""The rule for logits and tokens, and weights that would show any part of the model that went missing."""

import numpy as np
import pytest
import torch

from pytest_webgpu.qwen2 import peer
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.reference import judge, logits_after, transformers_model

MODEL = find_model("tiny")
PROMPT = MODEL.drawn_prompt(32)  # that of suites/qwen2
NEW = 32


@pytest.fixture(scope="module")
def exact():
    return transformers_model(MODEL, "f64")


@pytest.fixture(scope="module")
def said(exact):
    """Greedy tokens of the float64 run and the logits before each."""
    tokens = list(PROMPT)
    for _ in range(NEW):
        tokens.append(int(logits_after(exact, tokens, len(tokens) - 1).argmax()))
    return tokens[len(PROMPT) :], logits_after(exact, tokens[:-1], len(PROMPT) - 1).numpy()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_transformers_itself_is_right(said, dtype):
    tokens, _ = said
    theirs = logits_after(transformers_model(MODEL, dtype, stored=dtype), [*PROMPT, *tokens[:-1]], len(PROMPT) - 1)
    verdict = judge(MODEL, PROMPT, tokens, theirs.numpy(), dtype)
    assert verdict.ok, str(verdict)
    assert verdict.ratio == pytest.approx(1)
    assert "ok: logits at most" in str(verdict)


def test_an_error_of_five_times_theirs_is_wrong(said):
    tokens, logits = said
    theirs = judge(MODEL, PROMPT, tokens, logits, "f32").theirs
    logits = logits.copy()
    logits[3, 7] += 5 * max(theirs)
    verdict = judge(MODEL, PROMPT, tokens, logits, "f32")
    assert not verdict.ok
    assert verdict.ratio == pytest.approx(5, rel=0.2)


def test_a_wrong_last_token_is_wrong(said):
    """Whatever its logits: the last one decides about nothing that is read afterwards."""
    tokens, logits = said
    other = [*tokens[:-1], (tokens[-1] + 1) % MODEL.vocab]
    verdict = judge(MODEL, PROMPT, other, logits, "f32")
    assert verdict.wrong == (NEW - 1,)
    assert f"wrong token at {NEW - 1}" in str(verdict)
    assert not verdict.ok


def test_nan_is_wrong(said):
    tokens, logits = said
    assert not judge(MODEL, PROMPT, tokens, np.full_like(logits, np.nan), "f32").ok


def test_as_many_logits_as_tokens(said):
    tokens, logits = said
    with pytest.raises(ValueError, match="32 tokens and 31 rows of logits"):
        judge(MODEL, PROMPT, tokens, logits[1:], "f32")


def zero(name):
    return lambda bare: bare.get_parameter(name).zero_()


def one(name):
    return lambda bare: bare.get_parameter(name).copy_(bare.get_parameter(name).sign())


PARTS = {
    "rope": lambda bare: bare.model.rotary_emb.inv_freq.zero_(),
    **{f"{w} bias {i}": zero(f"model.layers.{i}.self_attn.{w}_proj.bias") for i in (0, 1) for w in "qkv"},
    **{f"attention {i}": zero(f"model.layers.{i}.self_attn.o_proj.weight") for i in (0, 1)},
    **{f"mlp {i}": zero(f"model.layers.{i}.mlp.down_proj.weight") for i in (0, 1)},
    **{f"{n} norm {i}": one(f"model.layers.{i}.{n}_layernorm.weight")
       for i in (0, 1) for n in ("input", "post_attention")},
    "last norm": one("model.norm.weight"),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_the_tokens_are_others(said, part):
    tokens, _ = said
    lame = transformers_model(MODEL, "f64")
    with torch.no_grad():
        PARTS[part](lame)
    found = logits_after(lame, [*PROMPT, *tokens[:-1]], len(PROMPT) - 1).argmax(-1)
    assert found.tolist() != tokens


def test_without_the_mask_the_tokens_are_others(said, exact):
    tokens, _ = said
    ids = torch.tensor([[*PROMPT, *tokens[:-1]]])
    with torch.inference_mode():
        everything = torch.ones(1, 1, ids.shape[1], ids.shape[1], dtype=torch.bool)
        hidden = exact.model(input_ids=ids, attention_mask=everything, use_cache=False).last_hidden_state
        found = exact.lm_head(hidden[0, len(PROMPT) - 1 :]).argmax(-1)
    assert found.tolist() != tokens


@pytest.mark.slow
def test_at_a_true_shape_the_tokens_differ_from_each_other():
    """A model that says one token for ever would let any kernel pass."""
    model = find_model("qwen2.5-0.5b")
    said = peer.measure(transformers_model(model), model.drawn_prompt(32), 16, rounds=1).tokens
    assert len(set(said)) >= 8
