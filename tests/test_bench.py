"""--webgpu-bench, --webgpu-dims and --webgpu-against: paired, at the dims asked for."""

from __future__ import annotations

import subprocess

import pytest

from pytest_webgpu.usage import parse_dims

from .test_collect import ADD, kernel

SLOW = ADD.replace(  # right, by way of a zero that no compiler sees
    "{ out[id.x] = a[id.x] + b[id.x]; }",
    """{
        var zero = 0.0;
        for (var i = 0u; i < 5000u; i++) { zero = max(0.5 * zero, -abs(a[(id.x + i) % n])); }
        out[id.x] = a[id.x] + b[id.x] + zero;
    }""",
)
assert SLOW != ADD
TIMED = ("mine.wgsl", "-k", "speed", "--webgpu-bench", "--webgpu-dims=n=4096")


def test_dims_are_needed(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--webgpu-bench")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--webgpu-dims=rows=1,cols=896" in result.stderr.str()


def test_dims_that_are_none() -> None:
    assert parse_dims("rows=1, cols=896") == {"rows": 1, "cols": 896}
    with pytest.raises(pytest.UsageError, match="cols: 'x' is no integer from 1"):
        parse_dims("rows=1,cols=x")


def test_mine_against_the_shipped(pytester: pytest.Pytester) -> None:
    kernel(pytester, SLOW)
    result = pytester.runpytest_inprocess(*TIMED)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["mine n=4096: * of the time of add*: slower"])


def test_against_a_revision(pytester: pytest.Pytester) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    path = kernel(pytester, ADD)
    for command in (["init", "-q"], ["add", "mine.wgsl"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], cwd=pytester.path, check=True)
    path.write_text(SLOW)
    result = pytester.runpytest_inprocess(*TIMED, "--webgpu-against=HEAD", "--webgpu-gate=fail")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*mine n=4096 takes * of what mine of HEAD takes: worse*"])


def test_a_revision_that_is_none(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess(*TIMED, "--webgpu-against=no-such-revision")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["AgainstError: * in no git repository*: name a file"])
