"""What cannot be trusted, as a user meets it: a clear error, a failed run, and never a pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .test_gate_bad_baselines import BAD
from .test_gate_items import GPU, MEASURES, store

MEASURED = MEASURES.format(values=[1.0], adapter=GPU)
DAMAGE = {**BAD, "NaN": (lambda text: text.replace("1.005", "NaN", 1), "holds NaN")}
GATES = ("fail", "strict", "warn")


def run(pytester: pytest.Pytester, *args: str, text: str = MEASURED) -> pytest.RunResult:
    pytester.makepyfile(text)
    (pytester.path / "ran").unlink(missing_ok=True)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--webgpu-gate-processes=1", *args)


def baselines(pytester: pytest.Pytester) -> list[Path]:
    store(pytester.path)
    return sorted((pytester.path / "baselines").rglob("*.json"))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_baseline_fails_the_run_whatever_the_gate(pytester: pytest.Pytester, damage: str) -> None:
    path = baselines(pytester)[-1]
    change, message = DAMAGE[damage]
    path.write_bytes(change(path.read_text()).encode(errors="surrogateescape"))
    for gate in GATES if damage == "empty" else GATES[:1]:
        result = run(pytester, f"--webgpu-gate={gate}")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.assert_outcomes(failed=int(gate != "warn"), passed=int(gate == "warn"))
        result.stdout.fnmatch_lines([f"baselines: ERROR {path}: *{message[:20]}*"])


def test_a_baseline_of_another_model_and_one_stored_twice(pytester: pytest.Pytester) -> None:
    first, *_, last = baselines(pytester)
    last.write_bytes(first.read_bytes())
    run(pytester, "--webgpu-gate=fail").stdout.fnmatch_lines(["BaselineError: *is the same session as *0001_*"])
    last.unlink()
    store(pytester.path, driver="0.9")
    other = next(p for p in (pytester.path / "baselines").rglob("*.json") if p.parent != first.parent)
    other.rename(last)
    result = run(pytester, "--webgpu-gate=fail")
    result.stdout.fnmatch_lines([f"BaselineError: {last}: is of another device or model than*driver '0.9' for*"])


def test_a_baseline_from_the_future_is_a_clock_that_went_back(pytester: pytest.Pytester, monkeypatch) -> None:
    path = baselines(pytester)[-1]
    data = json.loads(path.read_text())
    data["datetime"] = "2199-01-01T00:00:00+00:00"
    monkeypatch.setattr("pytest_webgpu.gate.store._checksum", lambda of: of["webgpu"]["checksum"])
    path.write_text(json.dumps(data))
    result = run(pytester, "--webgpu-gate=fail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*was recorded at 2199-01-01 00:00 UTC, which is to come: a clock went back*"])


@pytest.mark.parametrize("value", ["float('nan')", "0.0", "-1e-6", "float('inf')"])
def test_what_is_no_time_is_neither_judged_nor_recorded(pytester: pytest.Pytester, value: str) -> None:
    text = MEASURED.replace("[1.0]", f"[{value}]")
    for option in ("--webgpu-gate=fail", "--webgpu-gate=off"):
        result = run(pytester, option, "--webgpu-update-baselines", text=text)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*MeasurementError: b took * s: not measured, or the clock went backwards"])
    assert not list(pytester.path.glob("baselines/**/*.json"))


def test_a_folder_that_cannot_be_written_fails_the_run(pytester: pytest.Pytester) -> None:
    (pytester.path / "file").write_text("")
    result = run(pytester, "--webgpu-update-baselines", "--webgpu-baselines-dir=file")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["baselines: ERROR *cannot be written *Name another with --webgpu-baselines-dir."])


def test_nothing_measured_is_no_pass_of_strict(pytester: pytest.Pytester) -> None:
    text = "import pytest\ndef test_it(webgpu_adapter): pytest.skip('NOT MEASURED: no clock')\n"
    for gate, code in (("fail", 6), ("strict", pytest.ExitCode.TESTS_FAILED)):
        assert run(pytester, f"--webgpu-gate={gate}", text=text).ret == code
