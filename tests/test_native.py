"""Jobs on a native device: results and exact counts."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.buffers import pooled_size
from pytest_webgpu.gpu.job import (
    MODES,
    Bound,
    Collect,
    CopyBuffer,
    Dispatch,
    Drop,
    FillBuffer,
    GpuError,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    ReadBuffer,
    RunProgram,
    Slot,
    ValidationError,
    WriteBuffer,
)
from pytest_webgpu.gpu.native import NativeRunner

ADD = """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) i: vec3<u32>) {
  if (i.x < arrayLength(&x)) { x[i.x] += y[i.x]; }
}"""
SLOTS = (Slot(0, 0, "storage"), Slot(0, 1, "read-only-storage"))
BOUND = (Bound(0, 0, "x"), Bound(0, 1, "y"))
MAKE = (
    MakeBuffer("x", 400),
    MakeBuffer("y", 400),
    WriteBuffer("y", struct.pack("100f", *range(100))),
    MakePipeline("add", ADD, "main", SLOTS),
    MakeProgram("once", (Dispatch("add", BOUND, (2, 1, 1)),)),
    MakeProgram("thrice", (Dispatch("add", BOUND, (2, 1, 1)),) * 3),
)


@pytest.fixture(scope="module", params=["handles", "public"])
def runner(request):
    made = NativeRunner(choose(), public_calls=request.param == "public")
    assert made.calls.name == request.param
    return made


def floats(blob):
    return struct.unpack(f"{len(blob) // 4}f", blob)


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_computes_the_same_and_counts_what_it_issues(runner, mode):
    runner.run(Job(MAKE))
    result = runner.run(Job((RunProgram("thrice", times=5, mode=mode), ReadBuffer("x"))))
    assert floats(result.blob(-1)) == tuple(15.0 * n for n in range(100))
    passes = {"one-pass": 5}.get(mode, 15)
    submits = {"one-pass": 5, "pass-each": 5}.get(mode, 15) + 1  # the read's
    waits = 15 if mode == "wait-each" else 0
    counts = {"dispatches": 15, "passes": passes, "submits": submits, "reads": 1, "bytes_read": 400}
    result.counts.pop("buffers", None)  # a staging buffer, where the pool has none
    assert result.counts == counts | ({"waits": waits} if waits else {})


def test_making_is_counted_and_equal_pipelines_and_groups_are_made_once(runner):
    runner.run(Job(MAKE))
    counts = runner.run(Job(MAKE)).counts
    assert "pipelines" not in counts
    assert (counts["programs"], counts["bind_groups"], counts["writes"], counts["bytes_written"]) == (2, 2, 1, 400)


def test_pipelines_beside_one_that_cannot_be_made_are_compiled_ahead_all_the_same(runner):
    """All but those few that were compiled together with it: of them nobody knows whose error it was."""
    if runner.info.implementation != "wgpu-native":
        pytest.skip("only wgpu-native compiles ahead")
    code = "override N: f32; @group(0) @binding(0) var<storage, read_write> x: array<f32>;\n" \
           "@compute @workgroup_size(1) fn main() { x[0] = N; }"  # fmt: skip
    slots = (Slot(0, 0, "storage"),)
    no_wgsl = MakePipeline("no WGSL", "fn main() { let }", "main", slots)
    for first, bad in ((1000, no_wgsl), (2000, MakePipeline("no constant", code, "main", slots))):
        good = [MakePipeline(f"ahead{n}", code, "main", slots, {"N": n}) for n in range(first, first + 32)]
        with pytest.raises(GpuError):
            runner.run(Job((bad, *good)))
        made = runner.run(Job(tuple(good))).counts.get("pipelines", 0)
        assert made == 0 if bad is no_wgsl else made < 8


def test_collect_copies_after_each_repetition_and_reads_once(runner):
    result = runner.run(Job((*MAKE, RunProgram("once", times=40, collect=Collect("x", size=8, offset=392)))))
    assert floats(result.blob(-1))[-4:] == (98.0 * 39, 99.0 * 39, 98.0 * 40, 99.0 * 40)
    assert (result.counts["reads"], result.counts["bytes_read"]) == (1, 320)
    assert result.counts["throttles"] == 3  # 40 repetitions are 5 marks, and at most two stay open


def test_a_buffer_out_of_the_pool_is_zero(runner):
    job = (MakeBuffer("a", 1000), FillBuffer("a", 0xDEADBEEF), Drop(("a",)), MakeBuffer("b", 900), ReadBuffer("b"))
    assert bytes(runner.run(Job(job)).blob(-1)) == bytes(900)


def test_fill_and_copy(runner):
    job = (MakeBuffer("a", 16), MakeBuffer("b", 16), FillBuffer("a", 0x01020304, 4, 8), CopyBuffer("a", "b", 8, 8, 4))
    result = runner.run(Job((*job, FillBuffer("a", 0), ReadBuffer("a"), ReadBuffer("b"))))
    assert bytes(result.blob(-2)) == bytes(16)
    assert bytes(result.blob(-1)) == bytes(4) + b"\4\3\2\1" + bytes(8)


def test_a_program_keeps_the_buffers_that_were_dropped(runner):
    runner.run(Job((*MAKE, Drop(("x", "y", "add")))))
    runner.run(Job((RunProgram("thrice", wait=True), Drop(("*",)))))
    with pytest.raises(ValidationError, match="There is no program 'thrice'; there are: none"):
        runner.run(Job((RunProgram("thrice"),)))


@pytest.mark.parametrize(
    ("size", "capacity"), [(4, 256), (257, 512), (65_536, 65_536), (65_537, 69_632), (1 << 24, 1 << 24)]
)
def test_size_classes(size, capacity):
    assert pooled_size(size) == capacity


@given(st.integers(65_537, 1 << 24))
def test_a_large_buffer_takes_a_sixteenth_more_at_most(size):
    assert size <= pooled_size(size) <= size * 17 / 16
    assert pooled_size(pooled_size(size)) == pooled_size(size)
