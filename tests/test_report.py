"""The summary and the reports, from findings as tests leave them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_webgpu.report import files, markdown, terminal
from pytest_webgpu.report.results import Results

DEVICE = {
    "adapter": "llvmpipe", "backend": "vulkan", "implementation": "wgpu-native", "version": "27.0", "driver": "Mesa 25",
    "software": True, "findings": [],
}  # fmt: skip


def report(outcome: str, when: str = "call", **more: Any) -> Any:
    return SimpleNamespace(nodeid="suites/x.py::test", outcome=outcome, when=when, longrepr=None, **more)


def checked(op: str, passed: bool = True, headroom: float | None = 0.25) -> dict[str, Any]:
    data = {"op": op, "kernel": op, "passed": passed, "cases": 50, "headroom": headroom, "refused": None, "notes": [],
            "wrong": not passed,
            "implementation": "wgpu-native", "backend": "vulkan"}  # fmt: skip
    return {"kind": "conformance", "data": data}


def mutated(kernel: str, op: str, told: int, missed: int) -> dict[str, Any]:
    survivors = [{"name": f"{kernel}:{i}:term missing", "diff": f"---\n+++\n@@\n-a + b{i}\n+a"} for i in range(missed)]
    data = {"kernel": kernel, "op": op, "killed": told, "causes": {"wrong value": told}, "survivors": survivors,
            "equivalent": 2, "refused": 1, "seconds": 1.5}  # fmt: skip
    return {"kind": "mutants", "data": data}


@pytest.fixture
def results() -> Results:
    found = Results()
    found.add(report("passed", "setup"), [{"kind": "device", "data": DEVICE}])
    found.add(report("passed"), [checked("rms_norm"), checked("argmax", headroom=None)])
    return found


def test_the_verdict_comes_first(results: Results) -> None:
    assert terminal.summary(results, 80)[0] == "PASSED: 1 passed"
    results.add(report("failed"), [checked("softmax", passed=False, headroom=3.5)])
    lines = terminal.summary(results, 80)
    assert lines[0] == "FAILED: 1 passed, 1 failed"
    assert "softmax 3.50 WRONG" in "\n".join(lines)
    assert "2 of 3 kernels right, 150 cases" in "\n".join(lines)


def test_only_skipped_is_nothing_checked() -> None:
    results = Results()
    reason = ("file", 1, "Skipped: NOT MEASURED: there is no adapter\nand more")
    results.add(SimpleNamespace(nodeid="a", outcome="skipped", when="setup", longrepr=reason), [])  # type: ignore[arg-type]
    assert results.nothing
    assert terminal.summary(results, 80) == [
        "NOTHING CHECKED: 1 skipped",
        "skipped: 1 because NOT MEASURED: there is no adapter",
    ]


def test_a_report_without_webgpu_is_not_counted(results: Results) -> None:
    before = dict(results.outcomes)
    results.pytest_runtest_logreport(report("failed"))
    assert results.outcomes == before


def test_each_file_says_the_same(results: Results, tmp_path: Path) -> None:
    assert files.write(results, ["a.json", "deep/b.md", "c.html"], tmp_path) == [
        "report: a.json", "report: deep/b.md", "report: c.html",
    ]  # fmt: skip
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["verdict"] == "PASSED"
    assert [f["kind"] for f in data["findings"]] == ["device", "conformance", "conformance"]
    assert "| rms_norm | 1/1 | 50 | 0.25 |" in (tmp_path / "deep" / "b.md").read_text()
    assert "<td>llvmpipe (software)</td>" in (tmp_path / "c.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "c.html", "deep"]


def test_faults_that_were_told_by_op_and_in_all(results: Results, tmp_path: Path) -> None:
    counted = [("sum", "sum", 40, 0), ("argmax", "argmax", 49, 1), ("argmax.split", "argmax", 30, 0),
               ("cast", "cast", 0, 0)]  # fmt: skip
    results.add(report("passed"), [mutated(*one) for one in counted])
    lines = terminal.summary(results, 80)
    start = next(i for i, line in enumerate(lines) if line.startswith("Faults made in kernels"))
    assert [line.split() for line in lines[start + 1 : start + 9]] == [
        ["op", "kernels", "faults", "told", "share", "least", "equivalent", "refused"],
        ["argmax", "2", "80", "79", "98.8%", "98.0%", "4", "2"],
        ["cast", "1", "0", "0", "none", "none", "2", "1"],
        ["sum", "1", "40", "40", "100.0%", "100.0%", "2", "1"],
        ["all", "4", "120", "119", "99.2%", "98.0%", "8", "4"],
        ["not", "told:", "argmax:0:term", "missing"], ["-a", "+", "b0"], ["+a"],
    ]  # fmt: skip
    files.write(results, ["a.json"], tmp_path)
    by_op = json.loads((tmp_path / "a.json").read_text())["mutants"]
    assert list(by_op) == ["argmax", "cast", "sum", "all"]
    assert by_op["all"] == {"kernels": 4, "faults": 120, "told": 119, "share": 119 / 120, "least": 0.98,
                            "equivalent": 8, "refused": 4}  # fmt: skip
    assert by_op["cast"]["share"] is None


def test_a_bar_in_a_cell_does_not_break_the_table(results: Results) -> None:
    results.add(report("passed"), [checked("a|b")])
    assert "| a\\|b | 1/1 |" in markdown.render(results)


def test_findings_that_are_no_numbers_are_refused(results: Results, tmp_path: Path) -> None:
    results.add(report("passed"), [checked("add", headroom=float("nan"))])
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write(results, ["a.json"], tmp_path)
    assert not (tmp_path / "a.json").exists()
