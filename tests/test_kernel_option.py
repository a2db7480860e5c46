"""--webgpu-kernel puts a kernel into every suite."""

from __future__ import annotations

import pytest

from pytest_webgpu import resources

from .test_collect import ADD, QUICK, kernel


def test_a_file_that_is_no_kernel_is_a_usage_error(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD.replace("n, 64", "n; 64"))
    result = pytester.runpytest_inprocess("--webgpu-kernel=mine.wgsl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--webgpu-kernel: " in result.stderr.str()
    assert "mine.wgsl:3: " in result.stderr.str()


def test_a_file_that_is_not_there(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--webgpu-kernel=missing.wgsl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "missing.wgsl" in result.stderr.str()


def test_the_conformance_suite_checks_it_too(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    suite = str(resources.folder("suites") / "conformance")
    result = pytester.runpytest_subprocess(suite, "--webgpu-kernel=mine.wgsl", "-k", "mine", "-v", QUICK)
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*test_kernel?mine-auto? PASSED*", "conformance: 1 of 1 kernels right*"])
