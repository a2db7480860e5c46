"""Samples replayed through the real pytest-benchmark."""

import json

import pytest

from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.performance.replay import replay

pytest_plugins = ["pytester"]

SUITE = """
    import pytest
    from pytest_webgpu.performance.replay import replay, replayed_clock

    @pytest.mark.benchmark(timer=replayed_clock)
    @pytest.mark.parametrize("samples", [[3e-6, 1e-6, 2e-6], [0.1, 0.7, 0.1 + 0.2]], ids=["small", "large"])
    def test_item(benchmark, samples):
        assert replay(benchmark, samples, extra_info={"b": samples[0]}) is True
"""


def test_data_and_statistics_are_the_samples_to_the_bit(pytester):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_inprocess("--benchmark-json=out.json")
    result.assert_outcomes(passed=2)
    small, large = json.loads((pytester.path / "out.json").read_text())["benchmarks"]
    assert small["stats"]["data"] == [3e-6, 1e-6, 2e-6]
    assert small["stats"]["median"] == 2e-6
    assert small["stats"]["rounds"] == 3
    assert small["extra_info"] == {"b": 3e-6}
    assert large["stats"]["data"] == [0.1, 0.7, 0.1 + 0.2]


def test_its_own_options_go_on_working(pytester):
    pytester.makepyfile(SUITE)
    pytester.runpytest_inprocess("--benchmark-only", "--benchmark-save=first").assert_outcomes(passed=2)
    again = pytester.runpytest_inprocess("--benchmark-compare", "--benchmark-compare-fail=median:1%")
    again.assert_outcomes(passed=2)
    again.stdout.fnmatch_lines(["*test_item*(0001_first)*"])
    pytester.runpytest_inprocess("--benchmark-skip").assert_outcomes(skipped=2)


def test_the_fingerprint_stands_in_machine_info(pytester):
    pytester.makepyfile(SUITE.replace("test_item(benchmark", "test_item(webgpu_runner, benchmark"))
    pytester.runpytest_inprocess("--benchmark-json=out.json").assert_outcomes(passed=2)
    (told,) = json.loads((pytester.path / "out.json").read_text())["machine_info"]["webgpu"]
    assert Fingerprint.from_dict(told).as_dict() == told
    assert told["cpu"]


@pytest.mark.parametrize("option", ["--benchmark-disable", "-n1"])
def test_turned_off_is_said(pytester, option):
    pytester.makepyfile(SUITE.replace("is True", "is False"))
    pytester.runpytest_inprocess(option).assert_outcomes(passed=2)


def test_a_test_timed_by_another_clock_fails(pytester):
    pytester.makepyfile(SUITE.replace("@pytest.mark.benchmark(timer=replayed_clock)", ""))
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*timed by another clock: mark it with*"])


@pytest.mark.parametrize("samples", [[], [1e-6, -1e-6], [float("nan")], [0.0], [float("inf")]])
def test_what_is_no_time_is_refused(samples):
    with pytest.raises(ValueError, match=r"nothing was measured|sample \d is"):
        replay(None, samples)
