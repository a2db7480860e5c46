"""torch's own speed on the same model: that what is timed is the generation it says it is."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False,
    )  # fmt: skip
    return transformers.Qwen2ForCausalLM(config).eval()


@pytest.mark.parametrize("method", ["eager", "static"])
def test_tokens_are_those_of_generate(model, method):
    from pytest_webgpu.qwen2 import peer

    speed = peer.measure(model, [3, 1, 4, 1, 5], new_tokens=8, method=method, rounds=1)
    expected = model.generate(torch.tensor([[3, 1, 4, 1, 5]]), max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert list(speed.tokens) == expected[0, 5:].tolist()
    assert speed.token_ms > 0
    assert speed.first_token_ms > 0
    assert speed.tokens_per_second == pytest.approx(1e3 / speed.token_ms)
