"""`python -m pytest_webgpu generate`: text from a folder, streamed, and what is said where that cannot be."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pytest_webgpu.__main__ import main, texts
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.reference import transformers_model

tokenizers = pytest.importorskip("tokenizers")
TINY = find_model("tiny")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """tiny as a checkpoint: its weights, and a tokenizer as Qwen2's, of single bytes."""
    path = tmp_path_factory.mktemp("model") / "tiny"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(dict(TINY.config)))
    bare = transformers_model(TINY)
    save_file({n: p.detach().contiguous() for n, p in bare.named_parameters()}, path / "model.safetensors")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    letters += [f"<{i}>" for i in range(len(letters), TINY.vocab)]
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.save(str(path / "tokenizer.json"))
    return path


@pytest.mark.parametrize(("dtype", "megabytes"), [("f32", "0.7"), ("q4", "0.1")])
def test_the_text_is_that_of_the_reference(folder, capsys, dtype, megabytes):
    assert main(["generate", "--model", str(folder), "--dtype", dtype, "--new", "12", "Good day"]) == 0
    printed = capsys.readouterr()
    assert printed.err.endswith(f"; {megabytes} MB of weights in {dtype}\n")
    said = printed.out
    tokenizer = find_model(folder).tokenizer()
    bare, tokens = transformers_model(TINY, "f64", stored=dtype), tokenizer("Good day").input_ids
    assert len(tokens) == 8
    with torch.inference_mode():
        for _ in range(12):
            tokens.append(int(bare(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    assert said == tokenizer.decode(tokens[8:], skip_special_tokens=True)
    assert said


def test_a_model_that_has_no_q4_is_told(folder, tmp_path, capsys):
    """Its rows are no whole blocks: the message says which, and what to take instead."""
    other = tmp_path / "odd"
    shutil.copytree(folder, other)
    (other / "config.json").write_text(json.dumps({**TINY.config, "intermediate_size": 200}))
    assert main(["generate", "--model", str(other), "--dtype", "q4", "Good day"]) == 2
    said = capsys.readouterr().err
    assert "down_proj.weight: rows of 200 weights are no whole number of blocks of 32" in said
    assert "take f16 or f32" in said


class Letters:
    """A token a byte of UTF-8; 0 ends."""

    eos_token_id = 0

    def decode(self, tokens, skip_special_tokens):
        return np.array(tokens, np.uint8).tobytes().decode(errors="replace")


def test_text_comes_in_whole_characters_and_stops_at_the_end():
    euro = list("a€b".encode())
    blocks = iter([euro[:2], euro[2:4], euro[4:], [0, 99], [99]])
    assert list(texts(Letters(), blocks)) == [("a€", 4), ("b", 5), ("", 5)]
    assert next(blocks) == [99], "nothing is asked for after the end"


def test_a_folder_that_is_none_is_told(tmp_path, capsys):
    assert main(["generate", "--model", str(tmp_path / "no"), "hello"]) == 2
    assert "is neither a model" in capsys.readouterr().err
    assert main(["generate", "--model", "tiny", "hello"]) == 2
    assert "no tokenizer" in capsys.readouterr().err
