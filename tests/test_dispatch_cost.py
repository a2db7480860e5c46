"""What a dispatch costs: on a simulated device whose costs are known, and once on the adapter of this machine."""

import json
import struct

import numpy as np
import pytest

from pytest_webgpu.gpu import job
from pytest_webgpu.performance.dispatch import Effort, measure_dispatch, setups
from pytest_webgpu.performance.stats import MeasurementError

A, B = 117e-6, 8e-6
LABELS = [s.label for s in setups(job.DeviceInfo("", "", "", "", "", "", True, ("shader-f16",), {}), quick=True)]
EXTRA = {"pass-each": 25e-6, "submit-each": 45e-6, "wait-each": A}


class Simulated:
    """A runner whose dispatches cost B and whose wait costs A; `delay` is added to each dispatch."""

    def __init__(self, wait=3e-6, delay=0.0, noise=0.01, does=1, rounds=20, sees=1.0, **info):
        fields = {"features": ("shader-f16",), "software": False} | info
        self.info = job.DeviceInfo("simulated", "1", "vulkan", "Simulated GPU", "", "", limits={}, **fields)
        self.wait, self.delay, self.noise, self.does, self.rounds = wait, delay, noise, does, rounds
        self.sees = sees  # what a delay in each dispatch costs, as a share of it
        self.rng, self.added, self.dropped = np.random.default_rng(0), 0, False

    def run(self, todo, deadline=None):
        result = job.Result([])
        for command in todo.commands:
            value = getattr(self, type(command).__name__, lambda _: None)(command)
            if isinstance(value, bytes):
                result.blobs.append(value)
                value = {"blob": len(result.blobs) - 1}
            result.values.append(value)
        return result

    def close(self):
        pass

    def times(self, seconds, n=20):
        return (seconds * np.exp(self.noise * self.rng.standard_normal(n))).tolist()

    def MakePipeline(self, command):
        self.format = "<" + {"f32": "f", "f16": "e", "u32": "I"}[command.code.split("array<")[1][:3]]

    def RunProgram(self, command):
        self.added = command.times * self.does

    def ReadBuffer(self, command):
        return struct.pack(self.format, self.added).ljust(4, b"\0")

    def MeasureWaits(self, command):
        return {"clock_step_seconds": 1e-7, "empty_wait_seconds": self.times(self.wait), "fence": "poll",
                "read_seconds": self.times(1e-4)}  # fmt: skip

    def Measure(self, command):
        samples, delays = [], []
        for index, v in enumerate(command.variants):
            b = v.delay_seconds * self.sees + self.delay + (0.4e-6 if v.zero_workgroups else B) + EXTRA.get(v.mode, 0)
            for turn in range(min(self.rounds, v.rounds)):
                for n in v.counts:
                    samples.append([index, turn, n, 3, 3 * self.times(self.wait + A + b * n, 1)[0]])
                    delays.append(3 * n * v.delay_seconds)
        return {"samples": samples, "cut": [], "warm_up_seconds": 0.1, "delays": delays}

    def MeasurePhases(self, command):
        return {"phases": {"encoder": self.times(6e-6), "wait": self.times(94e-6), "whole": self.times(1e-4)}}

    def MeasureCreation(self, command):
        return {"seconds": {"buffer": self.times(14e-6), "pipeline": self.times(341e-6, 5)}}

    def MeasureTransfers(self, command):
        sizes = [self.times(1e-5 + size / 1e9, 3) for size in command.sizes]
        return {"write_seconds": sizes, "read_seconds": sizes}

    def Drop(self, command):
        self.dropped = True


def test_dispatch_and_wait_are_told_apart_and_the_naive_figure_stands_beside_them():
    report = measure_dispatch(runner := Simulated())
    assert report.b.low <= B <= report.b.high
    assert report.b.value == pytest.approx(B, rel=0.02)
    assert report.a.value == pytest.approx(A + 3e-6, rel=0.02)
    assert report.base.naive_ratio == pytest.approx((A + 3e-6 + B) / B, rel=0.05)
    assert report.base.total_over_n[1] == pytest.approx((A + 3e-6) / 100 + B, rel=0.05)
    assert report.api_cost("one-pass").value == pytest.approx(0.4e-6, rel=0.1)
    assert report.api_cost("wait-each") is None
    assert report.phase_sum == pytest.approx(report.phases["whole"].value, rel=0.05)
    assert report.warnings == ()
    assert runner.dropped
    assert json.loads(json.dumps(report.as_dict()))["figures"]["pass-each"]["fit"]["b"]["value"] > 30e-6


def test_a_delay_in_each_dispatch_moves_b_by_it_and_not_a():
    plain, delayed = measure_dispatch(Simulated()), measure_dispatch(Simulated(delay=50e-6))
    for label in plain.figures:
        moved = delayed.figures[label].fit.b.value - plain.figures[label].fit.b.value
        assert moved == pytest.approx(50e-6, rel=0.05), label
    assert delayed.a.value == pytest.approx(plain.a.value, rel=0.05)


def test_a_delay_put_into_each_dispatch_is_found_or_the_report_says_that_it_was_not():
    known = measure_dispatch(Simulated(), quick=False).known
    serial = ["one-pass", "pass-each"]
    assert [m.label for m in known] == serial + [f"{mode}, zero workgroups" for mode in serial]
    assert all(m.found and m.put == pytest.approx(200e-6, rel=1e-4) for m in known)
    lost = measure_dispatch(Simulated(sees=0.8))
    assert not any(m.found for m in lost.known)
    assert any(w.startswith("a known cost was not found: one-pass: 200.0 us more") for w in lost.warnings)


def test_artefacts_are_named():
    polled = measure_dispatch(Simulated(wait=0.1, software=True)).warnings
    assert "an empty wait takes 100 ms: completion is polled" in polled[0]
    assert any("a software adapter" in w for w in polled)
    assert any("b varies between rounds" in w for w in measure_dispatch(Simulated(noise=0.4)).warnings)


def test_what_was_cut_is_listed():
    cut = measure_dispatch(Simulated(rounds=7)).cut
    assert "one-pass: N up to 1000 of 1000, 7 of 20 rounds in 1.8 s" in cut
    assert any("factors in modes other than one pass" in c for c in cut)
    assert measure_dispatch(Simulated(rounds=99), quick=False).cut == ()
    with pytest.raises(MeasurementError, match="1 of 1 rounds"):
        measure_dispatch(Simulated(rounds=1))


def test_factors_vary_one_at_a_time_and_f16_needs_its_feature():
    assert LABELS[:4] == ["one-pass", "pass-each", "submit-each", "wait-each"]
    assert "one-pass, f16" in LABELS
    assert "one-pass, f16" not in [s.label for s in setups(Simulated(features=()).info, quick=True)]
    assert len(set(LABELS)) == len(LABELS) < len(setups(Simulated().info, quick=False))


def test_dispatches_that_are_not_done_are_not_timed():
    with pytest.raises(MeasurementError, match=r"5 dispatches of f32 added 0\.0 and not 5"):
        measure_dispatch(Simulated(does=0))


def test_on_the_adapter_of_this_machine():
    from pytest_webgpu.gpu import adapters, open_runner

    runner = open_runner(adapters.choose())
    try:
        report = measure_dispatch(runner, effort=Effort(3, 2.0, 0.1, 0.01))
    finally:
        runner.close()
    assert report.fence
    assert [len(m.by_rounds.per_round) > 1 for m in report.known] == [True, True]
    assert json.loads(json.dumps(report.finding()))["transfers"][0]["size"] == 4
    named = {label for label in LABELS if any(c.startswith(f"{label}: not measured") for c in report.cut)}
    assert set(report.figures) == set(LABELS) - named
    assert set(report.creation) == {"buffer", "bind-group", "pipeline"}
    assert [t.size for t in report.transfers][-1] == 64 << 20
    assert all(f.naive > 0 for f in report.figures.values())
