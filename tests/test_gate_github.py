"""On GitHub: what a pull request's step summary says, and the annotations that point into .wgsl files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_webgpu.gate.fingerprint import fingerprint
from pytest_webgpu.gpu.job import DeviceInfo
from pytest_webgpu.report import gate, github
from pytest_webgpu.report.results import Record, Results

from .test_collect import ADD, kernel

INFO = DeviceInfo("wgpu-native", "29.0", "vulkan", "NVIDIA H200", "nvidia", "580.1", False, ("subgroups",), {})
OF = fingerprint(INFO, dtype="f16", model="qwen2.5-0.5b").as_dict()
FILE = {"file": "wgsl/linear.gemv.wgsl", "line": 31}


def judgement(verdict: str, key: str = "token, prompt 32", ratio: float | None = 1.0, **more: object) -> Record:
    data = {"key": key, "fingerprint": OF, "verdict": verdict, "reason": "within its limit", "group": "model",
            "ratio": ratio, "limit": 1.06, "sittings": 5, "file": None, "line": None, **more}  # fmt: skip
    return Record(f"suites/test_x.py::{key}", "judgement", data)


def results(*records: Record, failed: int = 0) -> Results:
    found = Results(records=list(records), failed=[r.nodeid for r in records[:failed]])
    found.outcomes.update(passed=20 - failed, failed=failed)
    return found


def test_a_regression_comes_first_and_only_what_changed_is_shown() -> None:
    worse = judgement("worse", ratio=1.124, reason="over its limit of 6.0% in two sessions")
    better = judgement("not worse", "first token", 0.8)
    text = github.summary(results(worse, better, judgement("not worse", "as before"), failed=1))
    lines = text.splitlines()
    assert lines[0] == "## WebGPU: REGRESSED"
    assert lines[2] == "1 worse, 2 not worse; 19 passed, 1 failed"
    told = "| worse | token, prompt 32 (qwen2.5-0.5b f16) | 1.124 | 1.060 | over its limit of 6.0% in two sessions |"
    assert lines[6] == told
    assert "| better | first token" in lines[7]
    assert "as before" not in text


@pytest.mark.parametrize(
    ("records", "failed", "verdict"),
    [
        ([judgement("cannot tell"), judgement("not worse", "b")], 0, "CANNOT TELL"),
        ([judgement("no baseline", ratio=None)], 0, "NO BASELINE"),
        ([judgement("no baseline", ratio=None), judgement("not worse", "b")], 0, "PASSED"),
        ([Record("t", "conformance", {"passed": False}), judgement("worse")], 1, "FAILED"),
        ([judgement("worse")], 0, "REGRESSED"),
    ],
)
def test_the_verdict_is_the_worst_that_holds(records: list[Record], failed: int, verdict: str) -> None:
    assert gate.verdict(results(*records, failed=failed)) == verdict


def test_no_baseline_says_how_to_make_one() -> None:
    assert "--webgpu-update-baselines" in github.summary(results(judgement("no baseline", ratio=None)))
    assert "--webgpu-update-baselines" not in github.summary(results(judgement("not worse")))


def test_rows_that_are_alike_are_counted() -> None:
    text = github.summary(results(*(judgement("cannot tell", f"b{i}") for i in range(50))))
    assert text.count("| cannot tell |") == 3
    assert "47 more cannot tell" in text


def test_a_paired_comparison_stands_by_its_verdict_among_the_rest() -> None:
    race = {"mine": "add[f32] n=9", "other": "add[f32] of HEAD", "against": "HEAD", "ratio": 1.0, "low": 0.99,
            "high": 1.01, "p_within": 0.04, "rounds": 24, "faster": False}  # fmt: skip
    slower = {**race, "verdict": "worse", "ratio": 1.2, "low": 1.1, "high": 1.3}
    records = [judgement("no baseline", ratio=None), Record("t", "race", {**race, "verdict": "cannot tell"}),
               Record("u", "race", slower)]  # fmt: skip
    rows = [line for line in github.summary(results(*records)).splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows] == ["| verdict", "| ---", "| worse", "| cannot tell", "| no baseline"]
    assert "p = 0.04 that it is within the limit, 0.01 is asked" in rows[3]


def test_a_summary_is_never_too_long(tmp_path: Path) -> None:
    many = results(*(judgement("worse", f"b{i} {'x' * 200}") for i in range(6000)))
    path = tmp_path / "summary"
    path.write_text("é" * 1000)
    github.write(many, {"GITHUB_STEP_SUMMARY": str(path)})
    assert 900_000 < path.stat().st_size < 1 << 20
    assert path.read_text().endswith("has it whole.\n")


def test_ten_annotations_those_in_files_first(tmp_path: Path) -> None:
    elsewhere = [judgement("worse", f"b{i}", file="/usr/lib/x.wgsl", line=1) for i in range(12)]
    text = "50%\nslower"
    inside = judgement("worse", "kernel a: b, c", reason=text, file=str(tmp_path / FILE["file"]), line=31)
    lines = list(github.commands(results(*elsewhere, inside, failed=12), tmp_path))
    assert len(lines) == 10
    assert lines[0] == ("::warning file=wgsl/linear.gemv.wgsl,line=31,title=REGRESSED kernel a%3A b%2C c::1.000 of its "
                        "baseline: 50%25%0Aslower")  # fmt: skip
    assert lines[1].startswith("::error title=REGRESSED b0::")


def test_a_wrong_kernel_is_annotated_in_its_file(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(pytester, ADD.replace("a[id.x] + b", "a[id.x] - b"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    result = pytester.runpytest_inprocess("mine.wgsl", "--hypothesis-profile=webgpu-quick")
    result.assert_outcomes(failed=1)
    entry = next(i for i, line in enumerate(ADD.splitlines(), 1) if "fn main" in line)
    result.stdout.fnmatch_lines([f"::error file=mine.wgsl,line={entry},title=mine is wrong::ConformanceFailure: *"])
    assert (pytester.path / "summary.md").read_text().startswith("## WebGPU: FAILED")
