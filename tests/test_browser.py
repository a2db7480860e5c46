"""Jobs in Chrome and Firefox: the results, counts and errors of native devices."""

import pytest

from pytest_webgpu.gpu.browser import PART_BYTES
from pytest_webgpu.gpu.job import (
    MODES,
    Bound,
    Collect,
    CompileError,
    CopyBuffer,
    Dispatch,
    Drop,
    FillBuffer,
    Job,
    LimitError,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    Measure,
    MeasureCreation,
    MeasurePhases,
    MeasureTransfers,
    MeasureWaits,
    ReadBuffer,
    RunProgram,
    Slot,
    ValidationError,
    Variant,
    WriteBuffer,
)
from tests.test_native import ADD, BOUND, MAKE, SLOTS, floats


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_computes_the_same_and_counts_what_it_issues(browser, mode):
    browser.run(Job(MAKE))
    result = browser.run(Job((RunProgram("thrice", times=5, mode=mode), ReadBuffer("x"))))
    assert floats(result.blob(-1)) == tuple(15.0 * n for n in range(100))
    passes = {"one-pass": 5}.get(mode, 15)
    submits = {"one-pass": 5, "pass-each": 5}.get(mode, 15) + 1  # the read's
    counts = {"dispatches": 15, "passes": passes, "submits": submits, "reads": 1, "bytes_read": 400}
    assert result.counts == counts | ({"waits": 15} if mode == "wait-each" else {})


def test_fills_copies_and_drops_come_in_order(browser):
    browser.run(Job((*MAKE, Drop(("x", "y", "once")))))
    thrice = (RunProgram("thrice"), MakeBuffer("z", 20), FillBuffer("z", 0xFFFFFFFF), FillBuffer("z", 0, 16))
    copied = (CopyBuffer("z", "w", 8, 12, 4), ReadBuffer("w"), FillBuffer("w", 7), ReadBuffer("w", 4))
    result = browser.run(Job((*thrice, MakeBuffer("w", 12), *copied)))  # the program kept its buffers
    assert bytes(result.blob(-3)) == bytes(4) + b"\xff" * 4 + bytes(4)
    assert bytes(result.blob(-1)) == b"\7\0\0\0" * 2
    with pytest.raises(ValidationError, match="no program 'once'"):
        browser.run(Job((RunProgram("once"),)))


def test_collect_copies_after_each_repetition_and_reads_once(browser):
    result = browser.run(Job((*MAKE, RunProgram("once", times=40, collect=Collect("x", size=8, offset=392)))))
    assert floats(result.blob(-1))[-4:] == (98.0 * 39, 99.0 * 39, 98.0 * 40, 99.0 * 40)
    assert (result.counts["reads"], result.counts["bytes_read"]) == (1, 320)


def test_what_is_too_large_for_one_message_goes_in_several(browser):
    data = bytes(range(256)) * ((PART_BYTES + 4096) // 256)
    result = browser.run(Job((MakeBuffer("big", len(data)), WriteBuffer("big", data), ReadBuffer("big"))))
    assert result.blob(-1) == data
    assert (result.counts["bytes_written"], result.counts["bytes_read"]) == (len(data), len(data))
    browser.run(Job((Drop(("big",)),)))


@pytest.mark.parametrize(
    ("bad", "kind", "command"),
    [
        (MakePipeline("p", ADD, "mian", SLOTS), ValidationError, 1),
        (MakePipeline("p", ADD, "main", SLOTS[:1]), ValidationError, 1),
        (MakePipeline("p", ADD, "main", SLOTS, constants={"Q": 1}), ValidationError, 1),
        (MakePipeline("p", ADD.replace("64", "512"), "main", SLOTS), LimitError, 1),
        (MakePipeline("p", ADD, "main", tuple(Slot(0, i, "storage") for i in range(9))), LimitError, 1),
        (MakeProgram("p", (Dispatch("add", BOUND, (65536, 1, 1)),)), LimitError, 1),
        (MakeProgram("p", (Dispatch("add", (BOUND[0], Bound(0, 1, "x", 256)), (1, 1, 1)),)), ValidationError, 1),
        (MakeBuffer("big", 1 << 40), LimitError, 1),
        (WriteBuffer("w", bytes(8)), ValidationError, 1),
    ],
)  # fmt: skip
def test_errors_are_those_of_native_devices(browser, bad, kind, command):
    browser.run(Job(MAKE))
    with pytest.raises(kind) as caught:
        browser.run(Job((MakeBuffer("w", 4), bad, MakeBuffer("after", 4))))
    assert caught.value.command == command
    with pytest.raises(ValidationError, match="no buffer 'after'"):
        browser.run(Job((ReadBuffer("w"), ReadBuffer("after"))))


def test_a_compile_error_has_line_column_and_source(browser):
    code = "fn f() -> f32 { return q; }\n" + ADD
    with pytest.raises(CompileError) as caught:
        browser.run(Job((MakeBuffer("w", 4), MakePipeline("p", code, "main", SLOTS, enable=browser.info.features[:1]))))
    assert (caught.value.command, caught.value.details) == (1, {"line": 1, "column": 24, "code": code})


def test_measures_give_every_sample_and_name_the_fence(browser):
    variants = (
        Variant("a", "once", counts=(1, 2, 4), rounds=3),
        Variant("b", "thrice", "wait-each", counts=(1, 2, 4), rounds=2, fresh_bind_groups=True, zero_workgroups=True),
    )
    job = (*MAKE, Measure(variants, warm_up_seconds=0.05), ReadBuffer("x"), MeasureWaits(rounds=3),
           MeasurePhases("once", rounds=4), MeasureCreation("once", rounds=3, pipelines=2),
           MeasureTransfers((4, 4096), rounds=3))  # fmt: skip
    result = browser.run(Job(job))
    measured, read, waits, phases, creation, transfers = result.values[len(MAKE) :]
    assert sorted((v, turn, n) for v, turn, n, _, _ in measured["samples"]) == [
        (v, r, n) for v, rounds in ((0, 3), (1, 2)) for r in range(rounds) for n in (1, 2, 4)
    ]
    added = floats(result.blobs[read["blob"]])[1]  # each dispatch of "a" and none of "b" adds one
    assert 0 < added < result.counts["dispatches"]
    polled = "plain_empty_wait_seconds" in waits
    assert (browser.info.implementation == "firefox") == polled == ("plain_samples" in measured)
    assert max(waits["empty_wait_seconds"]) < 0.1 or not polled
    assert {*phases["phases"]} >= {"encoder", "set-bind-group", "finish", "submit", "wait", "whole"}
    assert len(creation["seconds"]["pipeline"]) == 2
    assert [len(seconds) for seconds in transfers["write_seconds"] + transfers["read_seconds"]] == [3, 3, 3, 3]
