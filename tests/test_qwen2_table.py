"""`python -m pytest_webgpu.performance.qwen2`: a row a model and dtype, and what stands beside it."""

import json

import pytest

pytest.importorskip("transformers")
from pytest_webgpu.performance import qwen2

SHORT = ["--models", "tiny", "--prompt", "5", "--new", "4", "--rounds", "1"]


def test_rows_of_tiny(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(qwen2, "LONG_PROMPT", 16)
    monkeypatch.setattr(qwen2.torch.cuda, "is_available", lambda: False)
    assert qwen2.main([*SHORT, "--dtypes", "f16", "q4", "--out", str(tmp_path / "table.json")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("no CUDA here: its columns are left out\n")
    assert "tiny q4 webgpu: " in said
    assert " tokens/s, " in said
    assert ", weights 0.1 MB\n" in said
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert [row["dtype"] for row in rows] == ["f16", "q4"]
    assert all(row["verdict"]["ok"] for row in rows)
    f16, q4 = (row["webgpu"]["weight_bytes"] for row in rows)
    assert 0.3 < q4 / f16 < 0.32  # 20 bytes for 32 weights; norms and biases in f32
    assert set(rows[1]) == {"model", "dtype", "fusions", "webgpu", "verdict"}


@pytest.mark.parametrize(("dtype", "told"), [("f16", "cuda eager: "), ("q4", "cuda eager in f16, having no q4: ")])
def test_a_column_of_another_dtype_is_labelled(dtype, told):
    line = qwen2.beside({"method": "eager", "token_ms": 3.0}, {"token_ms": 1.5}, dtype)
    assert line.startswith(told)
    assert line.endswith("333.3 tokens/s, token_ms 3.000; webgpu is 2.00 x as fast")
