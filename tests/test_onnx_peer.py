"""ONNX Runtime beside this project: what is said where it is missing, how it is judged, and, where it is, the whole."""

import dataclasses
import importlib.util
import json
import sys
import types

import numpy as np
import pytest

from pytest_webgpu.gpu.adapters import choose, list_adapters
from pytest_webgpu.performance import onnx_peer
from pytest_webgpu.performance.onnx_session import PROVIDER, NoPeer, Peer, Said, require
from pytest_webgpu.performance.stats import compare
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.reference import logits_after, transformers_model

pytest.importorskip("transformers")
TINY = find_model("tiny")
PROMPT = TINY.drawn_prompt(9)
FEW = ["--prompt", "9", "--new", "6", "--rounds", "2"]


def is_here() -> bool:
    try:
        require()
    except NoPeer:
        return False
    return True


with_peers = pytest.mark.skipif(
    not is_here(), reason="no onnxruntime-webgpu and onnx: pip install 'pytest-webgpu[peers]'"
)


def test_what_is_missing_is_told(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert onnx_peer.main(FEW) == 2
    told = "pytest_webgpu: onnx and onnxruntime-webgpu not installed: pip install 'pytest-webgpu[peers]'\n"
    assert capsys.readouterr().err == told


def test_a_runtime_without_webgpu_is_told(monkeypatch, capsys):
    other = types.ModuleType("onnxruntime")
    other.__version__, other.get_available_providers = "9.9", lambda: ["CPUExecutionProvider"]
    monkeypatch.setitem(sys.modules, "onnxruntime", other)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert onnx_peer.main(FEW) == 2
    said = capsys.readouterr().err
    assert "the onnxruntime that is installed (9.9) has no WebGpuExecutionProvider, only CPUExecutionProvider" in said


def test_a_runtime_that_finds_no_adapter_is_told(tmp_path):
    """Nor is another provider taken in its place."""
    asked = {}

    def refuse(path, options, **more):
        asked.update(more)
        raise RuntimeError("Failed to get a WebGPU adapter: No supported adapters\n")

    runtime = types.SimpleNamespace(__version__="9.9", SessionOptions=types.SimpleNamespace, InferenceSession=refuse)
    with pytest.raises(NoPeer) as told:
        Peer(runtime, tmp_path / "model.onnx", TINY, "f32", 16)
    wanted = "ONNX Runtime 9.9 has no tiny f32 on WebGPU: Failed to get a WebGPU adapter: No supported adapters"
    assert str(told.value) == wanted
    assert asked == {"providers": [PROVIDER], "enable_fallback": 0}


@with_peers
def test_a_full_disk_is_told(monkeypatch, capsys):
    def full(*rest):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(onnx_peer, "export", full)
    assert onnx_peer.main(FEW) == 2
    assert "No space left on device): TMPDIR names another place" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--new", "1"], ["--prompt", "0"], ["--rounds", "1"], ["--dtype", "q4"]])
def test_what_cannot_be_asked(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        onnx_peer.main(wrong)
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err


class Written:
    """A peer whose logits are those of a float64 run, off by `error` where the prompt goes in one step."""

    def __init__(self, error):
        self.error, self.calls = error, []

    def generate(self, prompt, new_tokens, at_once=True, logits=False):
        self.calls.append(at_once)
        bare, tokens = transformers_model(TINY, "f64"), []
        for _ in range(new_tokens):
            tokens.append(int(logits_after(bare, [*prompt, *tokens], len(prompt) + len(tokens) - 1)[0].argmax()))
        rows = logits_after(bare, [*prompt, *tokens[:-1]], len(prompt) - 1).numpy()
        return Said(tokens, 1.0, 1.0, rows + (self.error if at_once else 0))


@pytest.mark.parametrize(("error", "calls"), [(0.0, [True]), (0.01, [True, False])])
def test_a_prompt_that_is_wrong_in_one_step_goes_in_token_by_token(error, calls):
    peer = Written(error)
    asked = types.SimpleNamespace(model=TINY, dtype="f32")
    said, verdict, at_once, note = onnx_peer.judged(peer, asked, PROMPT, 3)
    assert peer.calls == calls
    assert verdict.ok
    assert len(said.tokens) == 3
    assert at_once == (error == 0)
    assert note.startswith("with the prompt in one step WRONG") == (error > 0)


def test_each_runs_once_a_round_in_random_order():
    ran = []
    ways = {name: lambda name=name: ran.append(name) or Said([1], 0.5, len(ran)) for name in "ab"}
    found = onnx_peer.alternate(ways, 20)
    assert {name: len(of) for name, of in found.items()} == {"a": 20, "b": 20}
    pairs = [tuple(ran[i : i + 2]) for i in range(0, 42, 2)]
    assert set(pairs) == {("a", "b"), ("b", "a")}
    assert min(said.decode_seconds for of in found.values() for said in of) == 3  # the first round warms up


def test_times_are_medians_of_rounds():
    rounds = [Said([], 0.010 * n, 0.1 * n) for n in (1, 2, 3)]
    found = onnx_peer.times(rounds, 11)
    assert found["token_ms"]["value"] == pytest.approx(20)
    assert found["first_token_ms"]["value"] == pytest.approx(20)
    assert found["tokens_per_second"]["per_round"] == pytest.approx([100, 50, 100 / 3])


def test_which_is_faster():
    slow, fast = [2.0 + 0.01 * i for i in range(9)], [1.0 + 0.01 * i for i in range(9)]
    assert onnx_peer.told(compare(fast, slow)) == "ours is faster"
    assert onnx_peer.told(compare(slow, fast)) == "theirs is faster"
    assert onnx_peer.told(compare(fast, fast)) == "cannot tell which is faster"


def test_the_peers_adapter_is_told_as_far_as_it_is_known(monkeypatch):
    ours = choose()
    there = [a for a in list_adapters() if a.key == ours.key]
    monkeypatch.setattr(onnx_peer, "list_adapters", lambda implementation: there)
    assert onnx_peer.peers_adapter(ours) == f"{ours.label}, the only one that there is"
    other = dataclasses.replace(ours, info=dataclasses.replace(ours.info, adapter="Another"))
    monkeypatch.setattr(onnx_peer, "list_adapters", lambda implementation: [*there, other])
    said = onnx_peer.peers_adapter(ours)
    assert said.startswith("not told: it asks Dawn for the one of high performance among Another, ")


@with_peers
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_side_by_side(dtype, tmp_path, capsys):
    assert onnx_peer.main([*FEW, "--dtype", dtype, "--out", str(tmp_path / "peer.json")]) == 0
    report = json.loads((tmp_path / "peer.json").read_text())
    assert report["ok"]
    assert report["same_tokens_each_round"]
    assert list(report["onnx"]["nodes_by_provider"]) == [PROVIDER]
    assert report["onnx"]["nodes_by_provider"][PROVIDER]["GroupQueryAttention"] == TINY.layers
    for of in (report["webgpu"], report["onnx"]):
        assert of["verdict"].startswith("ok: ")
        assert len(of["token_ms"]["per_round"]) == 2
    assert f"nodes on {PROVIDER}" in capsys.readouterr().out


@with_peers
def test_nodes_elsewhere_fail(monkeypatch, capsys):
    placement = Peer.placement
    monkeypatch.setattr(Peer, "placement", lambda self: placement(self) | {"CPUExecutionProvider": {"Gather": 1}})
    assert onnx_peer.main(FEW) == 1
    assert "1 nodes on CPUExecutionProvider: Gather 1" in capsys.readouterr().out


@with_peers
def test_the_graph_is_the_model(tmp_path):
    """On ONNX Runtime's own CPU provider, to within what f32 rounds."""
    from pytest_webgpu.performance.onnx_graph import cache_names, cache_shape, export

    session = require().InferenceSession(export(TINY, "f32", 16, tmp_path), providers=["CPUExecutionProvider"])
    feeds = {"input_ids": np.array([PROMPT]), "seqlens_k": np.array([8], np.int32), "total": np.array(9, np.int32)}
    feeds |= {f"past_{name}": np.zeros(cache_shape(TINY, 16), np.float32) for name in cache_names(TINY)}
    logits, token = session.run(["logits", "token"], feeds)
    exact = logits_after(transformers_model(TINY, "f64"), PROMPT, 8).numpy()
    assert np.abs(logits[0] - exact).max() < 1e-6
    assert token.tolist() == [[exact.argmax()]]
