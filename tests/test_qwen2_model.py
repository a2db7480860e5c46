"""Which model, its weights, and what is wrong with a folder that is none."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pytest_webgpu.compiler.plan import Buffer, Plan, Ref, Rows
from pytest_webgpu.qwen2.config import find_model, shapes
from pytest_webgpu.qwen2.errors import BadWeights, NoModel
from pytest_webgpu.qwen2.weights import DrawnWeights, FolderWeights, check_weights


def test_true_shapes():
    """The parameters that the models' cards state: 494 and 1,544 million."""
    for name, millions in (("qwen2.5-0.5b", 494), ("qwen2.5-1.5b", 1544)):
        assert sum(np.prod(s) for s in find_model(name).weights.shapes.values()) // 10**6 in (millions, millions - 1)


@pytest.mark.parametrize("tied", [True, False])
def test_shapes_are_those_of_transformers(tied):
    model = find_model("tiny")
    config = {**model.config, "tie_word_embeddings": tied}
    bare, rotary = type(model)("tiny", config).on_meta()
    assert shapes(config) == {n: tuple(p.shape) for n, p in bare.named_parameters()}
    assert rotary["model.rotary_emb.inv_freq"][1].item() == pytest.approx(1000000.0 ** (-2 / 16))


@pytest.mark.parametrize("block", [None, 200])
def test_rows_come_out_the_same_however_they_are_read(block, monkeypatch):
    if block:
        monkeypatch.setattr("pytest_webgpu.qwen2.weights.BLOCK", block)
    weights = DrawnWeights({"a.weight": (50, 32), "b.bias": (700,)}, seed=3)
    for name, height in (("a.weight", 50), ("b.bias", 700)):
        whole = weights.read(name, 0, height)
        assert whole.shape == weights.shape(name)
        parts = [weights.read(name, first, min(7, height - first)) for first in range(0, height, 7)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(DrawnWeights(weights.shapes, seed=4).read("b.bias", 0, 700), whole)


def test_how_weights_are_spread():
    weights = find_model("qwen2.5-0.5b").weights
    at = "model.layers.3."

    def of(name):
        return weights.read(name, 0, min(weights.shape(name)[0], 500))

    assert of(f"{at}mlp.down_proj.weight").std() == pytest.approx(4864**-0.5, rel=0.01)
    assert of("model.embed_tokens.weight").std() == pytest.approx(0.02, rel=0.01)
    assert of(f"{at}self_attn.q_proj.bias").std() == pytest.approx(0.5, rel=0.1)
    norm, last = of(f"{at}input_layernorm.weight"), of("model.norm.weight")
    assert (norm.mean(), norm.std()) == pytest.approx((1, 0.3), abs=0.05)
    assert np.abs(last).mean() == pytest.approx(1, abs=0.05)
    assert (last < 0).mean() == pytest.approx(0.5, abs=0.1)
    with pytest.raises(BadWeights, match=r"the model has no tensor lm_head.weight"):
        weights.shape("lm_head.weight")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(dict(find_model("tiny").config)))
    first = {"a": torch.arange(12.0).reshape(4, 3), "b": torch.arange(5.0).half()}
    save_file(first, tmp_path / "model-00001-of-00002.safetensors")
    second = {"c": torch.arange(6).reshape(2, 3).bfloat16(), "d": torch.arange(3)}
    save_file(second, tmp_path / "model-00002-of-00002.safetensors")
    return tmp_path


def test_folder(folder):
    model = find_model(folder)
    assert model.name == folder.name
    weights = model.weights
    assert weights.shape("a") == (4, 3)
    assert weights.read("a", 1, 2).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert weights.read("b", 3, 2).dtype == np.float16
    assert weights.read("c", 1, 1).tolist() == [[3, 4, 5]]
    with pytest.raises(BadWeights, match=r"no file holds the tensor e, which the model needs"):
        weights.shape("e")
    with pytest.raises(BadWeights, match=r"d is torch.int64; float32, float16 and bfloat16 are read"):
        weights.read("d", 0, 1)
    with pytest.raises(NoModel, match=r"no tokenizer: there is none of tokenizer.json"):
        model.tokenizer()


def test_shapes_are_checked_before_anything_is_sent(folder):
    parts = (Rows("a", 0, 2), Rows("a", 2, 3))  # five rows in two pieces
    buffers = {str(i): Buffer(str(i), "weight", "f32", (r.count, 3), 64, (r,)) for i, r in enumerate(parts)}
    plan = Plan(1, 16, "f32", (), buffers, (), {}, Ref("", 0, ()))
    with pytest.raises(BadWeights, match=r"a has the shape \(4, 3\); the model needs \(5, 3\)"):
        check_weights(plan, FolderWeights(folder))


def test_what_is_no_model(tmp_path, folder):
    with pytest.raises(NoModel, match=r"qwen9 is neither a model \(tiny, qwen2.5-0.5b, qwen2.5-1.5b\) nor a folder"):
        find_model("qwen9")
    (folder / "config.json").write_text("{}")
    with pytest.raises(NoModel, match=r"no model: config.json cannot be used \(KeyError: 'model_type'"):
        find_model(folder)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    (folder / "config.json").write_text(json.dumps(dict(find_model("tiny").config)))
    with pytest.raises(NoModel, match=r"no model: there is config.json \(qwen2\) but no \*.safetensors beside it"):
        find_model(folder)
    with pytest.raises(NoModel, match="tiny has weights drawn from a seed and no tokenizer"):
        find_model("tiny").tokenizer()


def test_a_file_cut_short(folder):
    file = folder / "model-00001-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(BadWeights, match=rf"{file} cannot be read: .*; fetch it again"):
        find_model(folder).weights.shape("a")
