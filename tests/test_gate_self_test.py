"""--webgpu-gate-self-test: the stored rule rehearsed on sessions that were made up, and the option on an adapter."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from pytest_webgpu import selftest
from pytest_webgpu.gate import rehearsal
from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.gate.rehearsal import Session, rehearse, told
from pytest_webgpu.gate.selftest import SLOWDOWNS, Rate


def sessions(noise: float, count: int = 40, seed: int = 0) -> list[Session]:
    """Of three benchmarks and a canary, with `noise` between sessions."""
    drawn = np.exp(noise * np.random.default_rng(seed).standard_normal((count, 4)))
    return [Session({k: {s: v * (1 + s) for s in SLOWDOWNS} for k, v in zip("abc", row, strict=False)}, 1.0)
            for row in drawn]  # fmt: skip


def test_on_a_quiet_machine_every_slowdown_above_the_limit_is_found() -> None:
    found = {(r.key, r.slowdown): r for r in rehearse(sessions(0.002))}
    assert len(found) == 3 * len(SLOWDOWNS)
    for key in "abc":
        assert found[key, 0.0].worse == Rate(0, 34)
        assert found[key, 0.2].worse == Rate(34, 34)
        assert found[key, 0.1].worse.share > 0.9


def test_what_cannot_be_told_is_not_judged() -> None:
    noisy = rehearse(sessions(0.3))
    assert sum(r.cannot_tell for r in noisy) > 0.9 * 34 * len(noisy)
    assert all(r.worse.trials + r.cannot_tell == 34 for r in noisy)
    assert sum(r.reasons.total() for r in noisy) == sum(r.cannot_tell for r in noisy)


def test_a_software_adapter_gives_no_false_alarm_and_finds_nothing() -> None:
    drift = [Session({"a": dict.fromkeys(SLOWDOWNS, 1.3 if i > 5 else 1.0)}, 1.0) for i in range(12)]
    assert rehearse(drift)[0].worse.hits > 0
    assert all(r.worse.hits == 0 for r in rehearse(drift, software=True))
    assert any("--webgpu-against" in reason for r in rehearse(drift, software=True) for reason in r.reasons)


def test_a_machine_that_slowed_down_is_not_judged() -> None:
    steady = sessions(0.002, 8)
    steady[6] = Session({k: {s: 2 * v for s, v in of.items()} for k, of in steady[6].seconds.items()}, 2.0)
    seventh = [r for r in rehearse(steady[1:]) if r.slowdown == 0.0]
    assert [(r.worse.trials, r.cannot_tell) for r in seventh] == [(0, 1)] * 3
    assert all("canary" in reason for r in seventh for reason in r.reasons)


def test_false_alarms_come_first_with_their_interval() -> None:
    lines = list(told(rehearse(sessions(0.002))))
    assert lines[0] == "stored baselines: A against A, called worse 0% [0%, 4%] of 102 judged; cannot tell 0"
    assert lines[-4].startswith("stored baselines: 20% slower, found 100%")


def test_too_few_sessions_are_refused(pytester: pytest.Pytester) -> None:
    with pytest.raises(ValueError, match="6 sessions, and 7"):
        rehearse(sessions(0.01, 6))
    for given in ("6", "many"):
        result = pytester.runpytest_inprocess("--webgpu-gate-self-test", f"--webgpu-gate-sessions={given}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*is no integer from 7*"])


def test_the_option_measures_and_stops(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel and few rounds: what is looked at is that real work is timed, and how it is told."""
    monkeypatch.setattr(selftest, "SUBSET", {"mul": {"n": 1}})
    monkeypatch.setattr(selftest.selftest, "self_test", lambda *_, **__: [])
    monkeypatch.setattr(rehearsal, "ROUNDS", 1)
    monkeypatch.setattr(selftest.options, "PROCESSES", 1)
    pytester.makepyfile("def test_never_run(): assert False")
    result = pytester.runpytest_inprocess("--webgpu-gate-self-test", "--webgpu-gate-sessions=7")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([
        "*7 sessions of mul?f32? n=1", "*session 7 of 7*", "stored baselines: A against A, called worse *",
        "stored baselines: 20% slower, found *", "  mul?f32? n=1: *", "* s in all",
    ])  # fmt: skip


def reports(folder: Path, values: list[float], implementations: tuple[str, ...] = ("wgpu-native",)) -> list[Path]:
    """A report for each value: of a kernel that takes it in seconds, and of a dispatch and a canary that never vary."""
    paths = []
    for number, value in enumerate(values):
        findings: list[dict[str, object]] = [{"kind": "canary", "seconds": 1e-3}]
        for name in implementations:
            of = dict.fromkeys((f.name for f in dataclasses.fields(Fingerprint)), "") | {"implementation": name}
            of = Fingerprint.from_dict(of).as_dict()
            for group, key, seconds in (("kernels", "kernel add", value), ("dispatch", "dispatch, one-pass", 1e-6)):
                findings.append({"kind": "measurement", "fingerprint": of, "key": key, "samples": [seconds],
                                 "value": seconds, "group": group, "more": {}})  # fmt: skip
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(json.dumps({"findings": findings}), encoding="utf-8")
    return paths


def test_reports_of_a_suite_run_again_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = reports(tmp_path, [1e-3] * 8 + [1.3e-3] * 2)
    assert selftest.main([str(p) for p in paths]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("stored baselines: A against A, called worse 12% ")
    assert lines[1] == "  dispatch, one-pass: 0% [0%, 60%] of 4 judged; cannot tell 0", "what gates first stands first"
    assert lines[2].startswith("  kernel add: 25% ")
    assert len(lines) == 3, "slower ones were not measured"


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "is no report"), ("[]", "is no report"), ('{"findings": []}', "has no measurement"), ("{", "is no report")],
)
def test_what_is_no_report(tmp_path: Path, text: str | None, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    paths = reports(tmp_path, [1e-3] * 7)
    paths[3].unlink()
    if text is not None:
        paths[3].write_text(text, encoding="utf-8")
    assert selftest.main([str(p) for p in paths]) == 2
    assert f"3.json {told}" in capsys.readouterr().err


def test_reports_of_two_implementations_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = reports(tmp_path, [1e-3] * 7, ("wgpu-native", "dawn"))
    assert selftest.main([str(p) for p in paths]) == 2
    assert "give those of one" in capsys.readouterr().err
    assert selftest.main([]) == 2
