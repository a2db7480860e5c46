"""A test that measures is failed by what the gate says of its figures: three values, two sessions, fresh processes."""

from __future__ import annotations

import dataclasses
import datetime
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pytest_webgpu.gate.fingerprint import fingerprint
from pytest_webgpu.gate.store import Session, record, write
from pytest_webgpu.gpu import adapters

# each process that runs it takes the next value, so that one sees how many there were
MEASURES = """
import dataclasses
from pathlib import Path
from pytest_webgpu.plugin import state_of

def test_measures(webgpu_adapter, pytestconfig, benchmark):
    benchmark.pedantic(int)
    values, ran = {values}, Path(__file__).with_name("ran")
    number = len(ran.read_text()) if ran.exists() else 0
    ran.write_text("x" * (number + 1))
    info = dataclasses.replace(webgpu_adapter.info, adapter={adapter!r})
    state_of(pytestconfig).measured(info, "b", [values[number]], values[number], "dispatch")
"""
GPU, SOFTWARE = "A GPU", "llvmpipe"  # stored baselines call nothing slower on the latter
STEADY = (1.0, 1.01, 0.99, 1.0, 1.005)


def store(
    folder: Path, values: tuple[float, ...] = STEADY, processes: int = 3, driver: str | None = None,
    canary: float | None = None, adapter: str = GPU,
) -> None:  # fmt: skip
    info = adapters.choose("auto", "wgpu-native", None).info
    of = fingerprint(dataclasses.replace(info, adapter=adapter, driver=driver or info.driver))
    for day, value in enumerate(values, 1):
        started = datetime.datetime(2026, 1, day, tzinfo=datetime.UTC)
        records = {"b": record([value], group="dispatch")} | ({"canary": record([canary])} if canary else {})
        write(folder / "baselines" / "measured",
              Session(of, f"{day}", started, f"boot {day}", records, processes=processes))  # fmt: skip


def run(
    pytester: pytest.Pytester, values: list[float], *args: str, adapter: str = GPU
) -> tuple[pytest.RunResult, int]:
    """The result, and how many processes measured."""
    pytester.makepyfile(MEASURES.format(values=values, adapter=adapter))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--webgpu-gate=fail", *args)
    ran = pytester.path / "ran"
    count = len(ran.read_text())
    ran.unlink()
    return result, count


def test_the_least_of_three_processes_is_judged(pytester: pytest.Pytester) -> None:
    store(pytester.path)
    result, processes = run(pytester, [1.5, 1.3, 1.01])
    result.assert_outcomes(passed=1)
    assert processes == 3
    result.stdout.fnmatch_lines(["*gate: fresh process 2 of 2*", "baselines: 1 not worse"])


def test_two_sessions_over_fail_the_test(pytester: pytest.Pytester) -> None:
    store(pytester.path)
    result, processes = run(pytester, [1.3, 1.2, 1.3, 1.25], "--junitxml=junit.xml", "--webgpu-gate-processes=2")
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert processes == 4
    result.stdout.fnmatch_lines(["*REGRESSED b: 1.199 of its baseline, over its limit of 5.* in two sessions"])
    (case,) = ElementTree.parse(pytester.path / "junit.xml").iter("testcase")
    assert case.find("failure") is not None
    named = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert named["webgpu b"] is not None
    assert named["webgpu b"].startswith("worse: 1.199 of its baseline")


def test_a_software_adapter_is_called_no_slower_by_what_was_stored(pytester: pytest.Pytester) -> None:
    """Whatever else runs on the machine slows it down as much; strict fails, since nothing could be told."""
    store(pytester.path, adapter=SOFTWARE)
    result, processes = run(pytester, [1.5] * 6, adapter=SOFTWARE)
    result.assert_outcomes(passed=1)
    assert processes == 3, "no second session could decide"
    result.stdout.fnmatch_lines(["baselines: 1 cannot tell", "  CANNOT TELL b: *software adapter*--webgpu-against*"])
    result, _ = run(pytester, [1.5] * 6, "--webgpu-gate=strict", adapter=SOFTWARE)
    result.assert_outcomes(failed=1)


def test_a_second_session_that_is_not_over_passes(pytester: pytest.Pytester) -> None:
    store(pytester.path)
    result, processes = run(pytester, [1.2, 1.0], "--webgpu-gate-processes=1")
    result.assert_outcomes(passed=1)
    assert processes == 2


def test_cannot_tell_passes_and_is_counted_and_fails_when_strict(pytester: pytest.Pytester) -> None:
    store(pytester.path, (1.0, 1.3, 0.8, 1.2, 0.9))
    for gate, failed in (("fail", 0), ("strict", 1)):
        result, _ = run(pytester, [3.0], f"--webgpu-gate={gate}", "--webgpu-gate-processes=1")
        result.assert_outcomes(failed=failed, passed=1 - failed)
        result.stdout.fnmatch_lines(["baselines: 1 cannot tell", "*CANNOT TELL b: *its sittings vary*"])


def test_a_canary_out_of_its_limits_tells_nothing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    store(pytester.path, canary=1e-3)
    monkeypatch.setattr("pytest_webgpu.gating.canary_seconds", lambda: 1.2e-3)
    result, processes = run(pytester, [3.0], "--webgpu-gate-processes=1")
    result.assert_outcomes(passed=1)
    assert processes == 1
    result.stdout.fnmatch_lines(["*CANNOT TELL b: *the canary took 1.20 of its usual time*"])


def test_a_process_that_fails_is_never_a_pass_of_strict(pytester: pytest.Pytester) -> None:
    store(pytester.path, processes=2)
    result, _ = run(pytester, [1.0], "--webgpu-gate=strict", "--webgpu-gate-processes=2")  # the second has no value
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CANNOT TELL b: 1 of 2 processes did not measure it: * ended with exit code 1*"])


def test_half_a_session_is_not_recorded(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, [1.0], "--webgpu-update-baselines", "--webgpu-gate-processes=2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["NOT RECORDED b: 1 of 2 processes did not measure it: *"])
    assert not (pytester.path / "baselines").exists()


def test_a_warning_takes_one_process_and_fails_nothing(pytester: pytest.Pytester) -> None:
    store(pytester.path)
    pytester.makepyfile(MEASURES.format(values=[9.0], adapter=GPU))
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*CANNOT TELL b: *over its limit once*"])


def test_sessions_of_fewer_processes_do_not_count(pytester: pytest.Pytester) -> None:
    store(pytester.path, processes=1)
    result, processes = run(pytester, [9.0])
    result.assert_outcomes(passed=1)
    assert processes == 1
    result.stdout.fnmatch_lines(["*NO BASELINE b: *(and 5 by fewer than 3 processes do not count)"])


def test_a_near_miss_is_shown_and_compared_with_on_request(pytester: pytest.Pytester) -> None:
    store(pytester.path, processes=1, driver="0.9")
    one = "--webgpu-gate-processes=1"
    result, _ = run(pytester, [1.0], one)
    result.stdout.fnmatch_lines(["*1 no baseline", "*5 sessions of a near miss (driver was 0.9) are not compared*"])
    result, _ = run(pytester, [1.0], one, "--webgpu-accept-near-miss")
    result.stdout.fnmatch_lines(["*1 not worse", "*near miss (driver was 0.9) were compared with"])


@pytest.mark.parametrize("given", ["0", "x", "-1"])
def test_a_number_of_processes_that_is_none(pytester: pytest.Pytester, given: str) -> None:
    result = pytester.runpytest_inprocess(f"--webgpu-gate-processes={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--webgpu-gate-processes: '{given}' is no integer from 1"])
