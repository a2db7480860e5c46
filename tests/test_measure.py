"""Timing loops: every sample comes back, and no more than was asked for."""

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import (
    Job,
    Measure,
    MeasureCreation,
    MeasurePhases,
    MeasureTransfers,
    MeasureWaits,
    ReadBuffer,
    Variant,
)
from tests.test_native import MAKE, floats


@pytest.fixture(scope="module")
def runner():
    return open_runner(choose(), in_process=True)


def test_measures_give_every_sample(runner):
    variants = (
        Variant("a", "once", counts=(1, 2, 4), rounds=3),
        Variant("b", "thrice", "wait-each", counts=(1, 2, 4), rounds=2, fresh_bind_groups=True, zero_workgroups=True),
        Variant("c", "once", counts=(1, 2, 4, 8, 16), rounds=3, budget_seconds=0.0),
    )
    result = runner.run(Job((*MAKE, Measure(variants, warm_up_seconds=0.05), ReadBuffer("x"))))
    value = result.values[-2]
    seen = [(v, turn, n) for v, turn, n, _, _ in value["samples"]]
    assert sorted(seen) == [(v, r, n) for v, rounds in ((0, 3), (1, 2)) for r in range(rounds) for n in (1, 2, 4)]
    assert seen != sorted(seen)
    assert value["cut"] == ["c"]
    assert all(seconds >= 1e-3 / 2 and repeats >= 1 for *_, repeats, seconds in value["samples"])
    added = floats(result.blob(-1))[1]  # each dispatch of "a", "c" and none of "b" adds one
    assert 0 < added < result.counts["dispatches"]


def test_waits_and_phases(runner):
    waits, phases = runner.run(Job((*MAKE, MeasureWaits(rounds=3), MeasurePhases("once", rounds=4)))).values[-2:]
    assert len(waits["empty_wait_seconds"]) == len(waits["read_seconds"]) == 3
    assert waits["clock_step_seconds"] > 0
    assert {len(seconds) for seconds in phases["phases"].values()} == {4}
    assert {*phases["phases"]} >= {"encoder", "set-bind-group", "finish", "submit", "wait", "whole"}


def test_creation_and_transfers(runner):
    job = (*MAKE, MeasureCreation("once", rounds=3, pipelines=2), MeasureTransfers((4, 4096), rounds=3))
    result = runner.run(Job(job))
    creation, transfers = result.values[-2:]
    assert {kind: len(seconds) for kind, seconds in creation["seconds"].items()} == {
        "buffer": 3, "bind-group": 3, "pipeline": 2,
    }  # fmt: skip
    assert [len(seconds) for seconds in transfers["write_seconds"] + transfers["read_seconds"]] == [3, 3, 3, 3]
    assert result.counts["pipelines"] >= 2
