"""Choosing where to run: what was asked for by name and is not there is a usage error, never a skip."""

from __future__ import annotations

import sys

import pytest

from pytest_webgpu.gpu import adapters

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="names backends of Linux"),
]

ASKS = """
def test_where(webgpu_backend, webgpu_adapter):
    assert webgpu_backend.backend in ("auto", webgpu_adapter.info.backend)
"""


@pytest.fixture
def no_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "enumerate_adapters", lambda implementation: [])


def test_auto_takes_one_and_the_header_names_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASKS)
    result = pytester.runpytest_inprocess("-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["webgpu: * on *, wgpu-native *", "*test_where?auto? PASSED*"])


def test_each_named_backend_is_a_parameter(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASKS)
    result = pytester.runpytest_inprocess("-v", "--webgpu-backend=vulkan", "--webgpu-backend=gl")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_where?vulkan? PASSED*", "*test_where?gl? PASSED*"])


def test_all_is_every_backend_that_is_there(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASKS)
    result = pytester.runpytest_inprocess("--webgpu-backend=all")
    result.assert_outcomes(passed=len({a.info.backend for a in adapters.list_adapters()}))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--webgpu-backend=metal"], "no wgpu-native adapter on backend 'metal'"),
        (["--webgpu-adapter=Voodoo"], "has 'Voodoo' in its name"),
    ],
)
def test_what_is_not_there_is_a_usage_error_that_lists_what_is(
    pytester: pytest.Pytester, args: list[str], words: str
) -> None:
    pytester.makepyfile(ASKS)
    result = pytester.runpytest_inprocess(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()
    assert adapters.describe(adapters.list_adapters()[0]) in result.stderr.str()


@pytest.mark.usefixtures("no_adapter")
def test_nothing_there_is_neither_green_nor_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASKS, test_other="def test_other(): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(skipped=1, passed=1)
    assert result.ret == 6
    result.stdout.fnmatch_lines(["NOTHING CHECKED: 1 skipped", "skipped: 1 because NOT MEASURED: *no wgpu-native*"])


@pytest.mark.usefixtures("no_adapter")
def test_a_project_without_webgpu_does_not_notice(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_other(): pass")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*webgpu:*")


def test_list_shows_what_there_is_and_runs_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASKS)
    result = pytester.runpytest_inprocess("--webgpu-list", "--webgpu-backend=metal")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["wgpu-native:", "  * on vulkan, *", "*features: *"])
    result.stdout.no_fnmatch_line("*test session starts*")


def test_two_workers_of_xdist_see_the_same_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASKS)
    result = pytester.runpytest_subprocess("-n2", "--webgpu-backend=all")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["PASSED: * passed"])


def test_folders_with_conftests_of_their_own(pytester: pytest.Pytester) -> None:
    for name in ("one", "two"):
        folder = pytester.mkpydir(name)
        (folder / "conftest.py").write_text("")
        (folder / f"test_{name}.py").write_text(ASKS)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["PASSED: 2 passed"])
