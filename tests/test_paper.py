"""The paper's rows and ours beside them."""

import json

import pytest

from pytest_webgpu.report.paper import main, paper_tables, published

WHERE = {"adapter": "NVIDIA H200", "backend": "vulkan", "implementation": "wgpu-native"}
ROW = {"b": 8e-6, "low": 7e-6, "high": 9e-6, "a": 117e-6, "naive": 125e-6, "naive_ratio": 15.6}
DISPATCH = {
    "kind": "dispatch", "software": False, **WHERE,
    "rows": [{"label": "submit-each", "total_over_n": [100, 9.17e-6], **ROW},
             {"label": "one-pass", "total_over_n": [50, 10e-6], **ROW}, {"label": "wait-each", **ROW}],
    "phases": {name: {"value": 1e-6} for name in ("encoder", "pass-begin", "set-pipeline", "set-bind-group", "dispatch",
                                       "pass-end", "finish", "submit", "wait", "whole")},
}  # fmt: skip
GENERATION = {
    "kind": "generation", "system": "pytest-webgpu", "model": "qwen2.5-0.5b", "dtype": "f32", "fusions": "all",
    "dispatches_per_token": 122,
    "prompt_tokens": 5, "new_tokens": 50, "prefill_seconds": 0.01, "decode_seconds": 0.1, **WHERE,
}  # fmt: skip
FUSION = {
    "kind": "fusion", "model": "qwen2.5-0.5b", "dtype": "f32", "level": "+ rope", "dispatches": 483,
    "token_seconds": 2e-3, "first_token_seconds": 0.01, "prompt_tokens": 5, "new_tokens": 50,
    "gain": {"p": 0.002}, **WHERE,
}  # fmt: skip
CONTROL = {
    "kind": "control", "op": "rms_norm", "adapter": "NVIDIA H200", "eager": 30e-6, "fused": 10e-6,
    "gain": {"ratio": 3.0, "low": 2.9, "high": 3.1, "p": 1e-6},
}  # fmt: skip
PEER = {
    "kind": "generation", "system": "transformers, eager", "model": "qwen2.5-0.5b", "dtype": "f32",
    "prompt_tokens": 5, "new_tokens": 50, "prefill_seconds": 0.1, "decode_seconds": 1.0, "adapter": "cpu",
}  # fmt: skip
KERNEL = {"kind": "kernel", "key": "linear.tiled rows=896,k=896,n=4864", "dtype": "f32", "flops_per_second": 1.1e13,
          "share": 0.4, "limit": "multiply-add rate", **WHERE}  # fmt: skip


def tables(*findings):
    return {t.title: t for t in paper_tables(findings, published())}


def ours(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "this machine"]


def test_the_paper_stands_alone_where_nothing_was_measured():
    shown = tables()
    assert len(shown) == 6
    assert len(shown["What a dispatch costs"].rows) == 11
    assert not any(ours(t) for t in shown.values())
    firefox = [r for r in shown["What a dispatch costs"].rows if "firefox" in r[1]]
    assert len(firefox) == 3
    assert all(r[-1].startswith("artefact") for r in firefox)


def test_ours_stand_in_the_same_columns_and_unlike_things_are_labelled():
    shown = tables(DISPATCH, GENERATION, FUSION, CONTROL, PEER, KERNEL, {"kind": "conformance"})
    submits, one_pass = ours(shown["What a dispatch costs"])
    assert submits["single us"] == "125"
    assert submits["total/100 us"] == "9.17"
    assert submits["b us [95 %]"] == "8 [7, 9]"
    assert "not the paper's submit a dispatch" in one_pass["remark"]
    assert "N = 50" in one_pass["remark"]
    end, peer = ours(shown["End to end"])
    assert peer["what"] == "transformers, eager, qwen2.5-0.5b f32"
    assert float(end["tok/s"]) == pytest.approx(55 / 0.11)
    assert float(end["decode tok/s"]) == pytest.approx(490)
    assert "KV cache" in end["remark"]
    (fusion,) = ours(shown["Fusion"])
    assert (fusion["fusions"], fusion["dispatches"], fusion["first token ms"]) == ("+ rope", "483", "10.0")
    assert float(fusion["tok/s"]) == pytest.approx(55 / 0.108, rel=1e-3)
    assert fusion["remark"].startswith("p 0.002 against the row above")
    (control,) = ours(shown["Fusion on CUDA, the control"])
    assert (control["eager us"], control["compiled us"], control["times as fast"]) == ("30", "10", "3.00 [2.90, 3.10]")
    (kernel,) = ours(shown["Kernels"])
    assert (kernel["TFLOP/s"], kernel["share"]) == ("11", "40% of the multiply-add rate")
    (phases,) = ours(shown["Phases of a dispatch, us"])
    assert phases["encoder_finish"] == "1"


def test_one_command_prints_them_from_a_report(tmp_path, capsys, monkeypatch):
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"findings": [DISPATCH, GENERATION]}))
    monkeypatch.setattr("sys.argv", ["paper", str(report)])
    main()
    printed = capsys.readouterr().out
    assert "NVIDIA RTX 5090" in printed
    assert "NVIDIA H200" in printed
