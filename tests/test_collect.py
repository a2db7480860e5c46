"""`pytest kernel.wgsl`: which files are collected, and what is said of those that are no kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_webgpu import collect

ADD = """
//! op = "add"
//! workgroups = ["ceil_div(n, 64)"]
//! guarded = true
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
override n: u32;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < n) { out[id.x] = a[id.x] + b[id.x]; }
}
"""
PEER = ADD.replace("//!", "// a header that is none:")
QUICK = "--hypothesis-profile=webgpu-quick"
VERTEX = "@vertex fn main() -> @builtin(position) vec4f { return vec4f(); }"


def kernel(pytester: pytest.Pytester, text: str, name: str = "mine.wgsl") -> Path:
    path = pytester.path / name
    path.write_text(text)
    return path


def test_a_header_is_enough_to_be_collected(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD, "sum_of_two.wgsl")
    kernel(pytester, VERTEX, "scene.wgsl")
    result = pytester.runpytest_inprocess("-v", ".", QUICK)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["sum_of_two.wgsl::conformance?auto? PASSED*"])


def test_a_file_that_cannot_be_read_is_collected(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:  # no mode of a file refuses root
        raise PermissionError(13, "Permission denied", str(path))

    kernel(pytester, ADD)
    monkeypatch.setattr(collect, "has_header", refuse)
    pytester.runpytest_inprocess(".", QUICK).assert_outcomes(passed=1)


def test_python_functions_of_a_project_are_its_own(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npython_functions = check_*\n")
    kernel(pytester, ADD)
    pytester.runpytest_inprocess("mine.wgsl", QUICK).assert_outcomes(passed=1)


def test_the_ini_key_names_files_without_a_header(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nwebgpu_files = kernels/*.wgsl\n")
    (pytester.path / "kernels").mkdir()
    kernel(pytester, PEER, "kernels/theirs.wgsl")
    result = pytester.runpytest_inprocess("--webgpu-op=add", "--webgpu-workgroups=ceil_div(n, 64)", QUICK)
    result.assert_outcomes(passed=1)


def test_someone_elses_file_through_a_side_file(pytester: pytest.Pytester) -> None:
    kernel(pytester, PEER.replace("var<storage, read> a:", "var<storage, read> left:").replace("= a[", "= left["))
    kernel(pytester, 'op = "add"\nworkgroups = ["ceil_div(n, 64)"]\nbind = {left = "a"}\n', "mine.toml")
    pytester.runpytest_inprocess(".", QUICK).assert_outcomes(passed=1)


def test_options_win_over_the_header(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess("mine.wgsl", "--webgpu-op=mul", QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ConformanceFailure: *mul*"])


def test_each_element_type_is_a_test(pytester: pytest.Pytester) -> None:
    text = ADD.replace('//! op = "add"', '//! op = "add"\n//! types = {elem = ["f32", "f16"]}')
    text = text.replace("array<f32>", "array<elem>").replace("override", "alias elem = f32;\noverride")
    kernel(pytester, text)
    result = pytester.runpytest_inprocess("mine.wgsl", "-v", "--webgpu-without=shader-f16", "-rs", QUICK)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*conformance?auto-f32? PASSED*", "SKIPPED * mine?f16? needs shader-f16, which *"])


def test_a_preprocessor_makes_the_text(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD.replace("+ b[id.x]", "PLUS b[id.x]"))
    result = pytester.runpytest_inprocess("mine.wgsl", "--webgpu-preprocess=sed 's/PLUS/+/' {file}", QUICK)
    result.assert_outcomes(passed=1)
    kept = pytester.path / ".webgpu" / "preprocessed" / "mine.wgsl"
    assert kept.read_text() == ADD


def test_a_preprocessor_that_fails(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess("mine.wgsl", "--webgpu-preprocess=sed s/ {file}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*mine.wgsl:1: --webgpu-preprocess failed: sed: *unterminated*"])


def test_mutants_are_counted_and_survivors_shown(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess("mine.wgsl", "-k", "mutants", "--webgpu-mutants", QUICK)
    result.assert_outcomes(passed=1, deselected=1)
    row = re.search(r"^  add +1 +(\d+) +(\d+) ", result.stdout.str(), re.MULTILINE)
    assert row is not None
    faults, told = map(int, row.groups())
    assert told >= 0.9 * faults
    assert result.stdout.str().count("  not told: mine:12:") == faults - told


def test_mutants_at_most(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess("mine.wgsl", "-k", "mutants", "--webgpu-mutants", "--webgpu-most-mutants=3")
    result.assert_outcomes(passed=1, deselected=1)
    row = re.search(r"^  add +1 +(\d+) +\d+ .* (\d+) +(\d+)$", result.stdout.str(), re.MULTILINE)
    assert row is not None
    assert sum(map(int, row.groups())) == 3


BAD = {
    "no_header": (PEER, ["*no_header.wgsl:1: no header*", "*--webgpu-op*"]),
    "unknown_op": (ADD.replace('"add"', '"ad"'), ["*unknown_op.wgsl:2: no op is named 'ad'*"]),
    "no_arithmetic": (ADD.replace("ceil_div(n, 64)", "__import__(1)"), ["*no_arithmetic.wgsl:3: *__import__*"]),
    "no_such_dim": (ADD.replace("ceil_div(n, 64)", "ceil_div(m, 64)"), ["*no_such_dim.wgsl:3: *m*"]),
    "no_argument": (
        ADD.replace("> b: array", "> c: array").replace("+ b[", "+ c["),
        ["*no_argument.wgsl:*: add needs a binding `b`*"],
    ),
    "compiler_says": (
        ADD.replace("= a[id.x] +", "= a[id.x] + 1u +"),
        ["*compiler_says.wgsl:12: wgpu-native does not compile it*", "*a[[]id.x] + 1u*", "*^^^*"],
    ),
}


def test_bad_files_fail_alone_and_say_where(pytester: pytest.Pytester) -> None:
    for name, (text, _) in BAD.items():
        kernel(pytester, text, f"{name}.wgsl")
    kernel(pytester, ADD, "good.wgsl")
    result = pytester.runpytest_inprocess(*(f"{name}.wgsl" for name in (*BAD, "good")), QUICK)
    result.assert_outcomes(passed=1, failed=len(BAD))
    for _, lines in BAD.values():
        result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_failure_shows_what_the_text_alone_shows(pytester: pytest.Pytester) -> None:
    """A barrier that not every invocation reaches is what makes the result wrong, and the line is told."""
    text = ADD.replace("override n: u32;", "override n: u32;\nvar<workgroup> part: array<f32, 64>;")
    wrong = "if (id.x % 64u < 7u) { workgroupBarrier(); }\n part[id.x % 64u] = a[id.x];\n out[id.x] = 0.0;"
    kernel(pytester, re.sub(r"if \(id.x < n\).*", wrong, text))
    result = pytester.runpytest_inprocess("mine.wgsl", QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  what the text alone shows*", "*mine.wgsl:13: *(barrier-not-uniform)"])
