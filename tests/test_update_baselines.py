"""--webgpu-update-baselines, --webgpu-baselines-dir and --webgpu-gate: recorded, keyed, shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MEASURES = """
from pytest_webgpu.plugin import state_of

def test_measures(webgpu_adapter, pytestconfig):
    info, state = webgpu_adapter.info, state_of(pytestconfig)
    state.measured(info, "dispatch one-pass", [2e-6, 3e-6], 2e-6, "dispatch")
    state.counted(info, "dispatches a token", {count}, {{"linear": 10, "rms_norm": {count} - 10}}, model="tiny")
    assert {count} > 0
"""


def run(pytester: pytest.Pytester, *args: str, count: int = 15) -> pytest.RunResult:
    pytester.makepyfile(MEASURES.format(count=count))
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--webgpu-gate-processes=1", *args)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "measured").rglob("*.json"))


def test_recorded_under_the_fingerprint(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--webgpu-update-baselines", "--webgpu-baselines-dir=kept")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["baselines: 1 figures recorded in wgpu-native-*.json"])
    there = files(pytester.path / "kept")
    assert sorted("tiny" in path.parent.name for path in there) == [False, True]
    figures = [b["name"] for path in there for b in json.loads(path.read_text())["benchmarks"]]
    assert figures == ["dispatch one-pass", "canary"]


def test_one_dispatch_more_is_worse_and_names_the_op(pytester: pytest.Pytester) -> None:
    run(pytester, "--webgpu-update-baselines")
    assert files(pytester.path / "baselines")
    for gate, code in (("warn", 0), ("fail", 1), ("strict", 1), ("off", 0)):
        result = run(pytester, f"--webgpu-gate={gate}", count=16)
        assert result.ret == code, gate
        result.assert_outcomes(failed=code, passed=1 - code)
        if gate != "off":
            result.stdout.fnmatch_lines(["*REGRESSED dispatches a token (tiny): * 15 -> 16 (rms_norm: 5 -> 6)"])
        else:
            result.stdout.no_fnmatch_line("*REGRESSED*")


def test_no_baseline_says_how_to_make_one_and_fails_only_a_strict_gate(pytester: pytest.Pytester) -> None:
    assert run(pytester, "--webgpu-gate=fail").ret == pytest.ExitCode.OK
    result = run(pytester, "--webgpu-gate=strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["baselines: 2 no baseline", "*NO BASELINE *: --webgpu-update-baselines*"])


def test_a_baseline_that_cannot_be_read_is_no_pass(pytester: pytest.Pytester) -> None:
    run(pytester, "--webgpu-update-baselines")
    broken = files(pytester.path / "baselines")[0]
    broken.write_text(broken.read_text()[:100])
    result = run(pytester)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"baselines: ERROR {broken}: is cut short*"])


def test_a_run_in_which_a_test_failed_records_nothing(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--webgpu-update-baselines", count=0)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["baselines: nothing recorded, since tests failed"])
    assert files(pytester.path / "baselines") == []


def test_counts_are_judged_and_recorded_beside_other_workers(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    for count, failed in ((15, 0), (16, 1)):
        result = run(pytester, "-n", "2", "--webgpu-gate=fail", "--webgpu-update-baselines", count=count)
        result.assert_outcomes(failed=failed, passed=1 - failed)
    assert len(files(pytester.path / "baselines")) == 2, "of a run in which something regressed nothing is recorded"
    result.stdout.fnmatch_lines(["*REGRESSED dispatches a token (tiny): * 15 -> 16 (rms_norm: 5 -> 6)"])
