"""Generation on an adapter: tokens and logits by the rule, exact counts, and what is refused."""

import json

import numpy as np
import pytest

from pytest_webgpu.compiler.build import PlanCache
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.errors import BadPrompt, BadWeights
from pytest_webgpu.qwen2.generate import Chunk, Generator
from pytest_webgpu.qwen2.reference import judge, transformers_model

TINY = find_model("tiny")


@pytest.fixture(scope="module")
def runner():
    made = open_runner(choose(), in_process=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return PlanCache(tmp_path_factory.mktemp("plans"))


@pytest.fixture(scope="module")
def tiny(runner, cache):
    made = Generator(TINY, runner, capacity=160, chunks=(16, 128), cache=cache)
    yield made
    made.close()


def prompt(length, seed=0):
    return np.random.default_rng(seed).integers(0, TINY.vocab, length).tolist()


@pytest.mark.parametrize("length", [1, 2, 17, 33, 156])
def test_prompts_of_any_length(tiny, length):
    """One token runs the decode step; 33 need two chunks, of which the last is masked; 156 and 4 fill the cache."""
    given = prompt(length, length)
    said = tiny.generate(given, 4, logits=True)
    verdict = judge(TINY, given, said.tokens, said.logits, "f32")
    assert verdict.ok, str(verdict)
    assert tiny.generate(given, 4).tokens == said.tokens


def test_a_token_is_one_pass_and_one_submit(tiny):
    said = tiny.generate(prompt(5), 9)
    counts = said.counts_per_token
    assert (counts["dispatches"], counts["passes"], counts["submits"]) == (tiny.plan(1).dispatches, 1, 1)
    assert said.counts["waits"] == 1
    assert counts.get("reads", 0) == counts.get("bytes_written", 0) == 0
    assert said.decode_seconds >= said.encode_seconds > 0
    assert said.tokens_per_second == 8 / said.decode_seconds
    assert said.prefill_seconds > 0


def test_one_token_has_no_decode(tiny):
    said = tiny.generate(prompt(5), 1)
    assert said.tokens == tiny.generate(prompt(5), 2).tokens[:1]
    assert (said.decode_seconds, dict(said.counts), said.counts_per_token) == (0, {}, {})
    assert np.isnan(said.tokens_per_second)


@pytest.mark.parametrize(
    ("dtype", "fusions"), [("f16", "all"), ("f16", "none"), ("f32", "none"), ("q4", "all"), ("q4", "none")]
)
def test_dtypes_and_fusions(runner, cache, dtype, fusions):
    made = Generator(TINY, runner, dtype, fusions, 160, chunks=(16,), cache=cache)
    said = made.generate(prompt(20), 8, logits=True)
    made.close()
    verdict = judge(TINY, prompt(20), said.tokens, said.logits, dtype)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_folder_in_hugging_face_layout(runner, cache, tmp_path, dtype):
    import torch

    bare = transformers_model(TINY).to(getattr(torch, dtype))
    bare.save_pretrained(tmp_path, max_shard_size="200KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    model = find_model(tmp_path)
    made = Generator(model, runner, capacity=160, chunks=(16,), cache=cache)
    said = made.generate(prompt(20), 4, logits=True)
    made.close()
    assert judge(model, prompt(20), said.tokens, said.logits, "f32").ok


def test_a_folder_with_weights_of_another_shape(runner, cache, tmp_path):
    transformers_model(TINY).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 128}))
    made = Generator(find_model(tmp_path), runner, capacity=160, chunks=(16,), cache=cache)
    with pytest.raises(BadWeights, match=r"mlp.*weight has the shape \(.*192.*\); the model needs \(.*128.*\)"):
        made.generate(prompt(3), 1)


@pytest.mark.parametrize(
    ("given", "new", "message"),
    [([], 1, "the prompt is empty"), ([5, 1000], 1, "token 1000 is none: tiny has tokens 0 to 999"),
     ([-1], 1, "token -1 is none"), ([1], 0, "0 new tokens: ask for at least one"),
     ([1] * 150, 11, "150 tokens and 11 new ones do not fit the cache of 160: make it with capacity=161 or more")],
)  # fmt: skip
def test_what_is_refused(tiny, given, new, message):
    with pytest.raises(BadPrompt, match=message):
        tiny.generate(given, new)


def test_no_such_dtype(runner):
    with pytest.raises(ValueError, match="dtype 'f8': f32, f16, q4"):
        Generator(TINY, runner, "f8")


def test_chunks_cover_every_prompt_and_fit_the_cache(runner):
    made = Generator(TINY, runner, capacity=610)
    assert made.capacity == 624
    for length in range(1, 625):
        chunks = made.chunked(length)
        assert sum(c.valid for c in chunks) == length
        assert [c.start for c in chunks] == [sum(c.length for c in chunks[:i]) for i in range(len(chunks))]
        assert all(c.valid == c.length for c in chunks[:-1])
        assert all(c.start + c.length <= 624 for c in chunks)
        assert len(chunks) <= 8  # a last 128 would not fit the cache after 512
    assert made.chunked(32) == [Chunk(16, 0, 16), Chunk(16, 16, 16)]
    assert made.chunked(512) == [Chunk(512, 0, 512)]
    assert made.chunked(100) == [Chunk(128, 0, 100)]
    assert made.chunked(17) == [Chunk(16, 0, 16), Chunk(1, 16, 1)]
