"""Ids turned round: a correct kernel does not notice, a hidden hazard shows."""

import struct
from collections.abc import Iterator

import pytest

from pytest_webgpu.gpu import job, open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.kernels.reverse import reversed_source
from pytest_webgpu.kernels.source import KernelSource, parse_source

X = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
IDS = """
    let size = vec3<u32>(4u, 3u, 2u); let whole = n * size;
    let flat = gid.x + whole.x * (gid.y + whole.y * gid.z);
    x[flat] = lane | (lid.x << 8u) | (lid.y << 12u) | (lid.z << 14u) | (wid.x << 16u) | (wid.y << 20u) | (wid.z << 24u);
"""
PLAIN = ("@compute @workgroup_size(W, 3u, 2) fn main(@builtin(global_invocation_id) gid: vec3u, "
         "@builtin(local_invocation_id) lid: vec3<u32>, @builtin(workgroup_id) wid: vec3<u32>, "
         "@builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) lane: u32,) {"
         + IDS + "}")  # fmt: skip
IN_STRUCT = ("struct Ids { @builtin(global_invocation_id) gid: vec3u, @builtin(workgroup_id) wid: vec3<u32>, "
             "@builtin(num_workgroups) n: vec3<u32> }\n"
             "@compute @workgroup_size(W, 3u, 2) fn main(ids: Ids, @builtin(local_invocation_index) lane: u32, "
             "@builtin(local_invocation_id) lid: vec3<u32>) { let gid = ids.gid; let wid = ids.wid; let n = ids.n;"
             + IDS + "}")  # fmt: skip
SHIFT = ("@compute @workgroup_size(256) fn main(@builtin(local_invocation_id) local_invocation_id: vec3<u32>) "
         "{ let i = local_invocation_id.x; let right = x[i + 1u]; BARRIER x[i] = right; }")  # fmt: skip


def kernel(body: str) -> KernelSource:
    return parse_source(f"override W: u32 = 4;\n{X}{body}", "k.wgsl", {"op": "copy", "workgroups": ["1"]})


@pytest.fixture(scope="module")
def runner() -> Iterator[job.Runner]:
    opened = open_runner(choose(), in_process=True)
    yield opened
    opened.close()


def run(runner: job.Runner, code: str, workgroups: tuple[int, int, int], words: int = 720) -> tuple[int, ...]:
    data = struct.pack(f"<{words}I", *range(1000, 1000 + words))
    result = runner.run(job.Job((
        job.MakeBuffer("x", words * 4), job.WriteBuffer("x", data),
        job.MakePipeline("p", code, "main", (job.Slot(0, 0, "storage"),)),
        job.MakeProgram("g", (job.Dispatch("p", (job.Bound(0, 0, "x"),), workgroups),)), job.RunProgram("g", wait=True),
        job.ReadBuffer("x"),
    )))  # fmt: skip
    return struct.unpack(f"<{words}I", bytes(result.blob(-1)))


@pytest.mark.parametrize("body", [PLAIN, IN_STRUCT], ids=["parameters", "struct"])
def test_a_correct_kernel_gives_equal_bits(runner: job.Runner, body: str) -> None:
    source = kernel(body)
    turned = reversed_source(source, "main")
    assert turned is not None
    assert turned != source.code
    forward = run(runner, source.code, (5, 3, 2))
    assert max(forward) == 23 | 3 << 8 | 2 << 12 | 1 << 14 | 4 << 16 | 2 << 20 | 1 << 24
    assert run(runner, turned, (5, 3, 2)) == forward


def test_a_write_after_read_that_the_schedule_hides_shows(runner: job.Runner) -> None:
    hazard, whole = kernel(SHIFT.replace("BARRIER", "")), kernel(SHIFT.replace("BARRIER", "storageBarrier();"))
    for source, equal in ((hazard, False), (whole, True)):
        turned = reversed_source(source, "main")
        assert turned is not None
        assert (run(runner, turned, (1, 1, 1)) == run(runner, source.code, (1, 1, 1))) is equal


def test_with_subgroups_only_workgroups_turn() -> None:
    body = ("@compute @workgroup_size(W) fn main(@builtin(global_invocation_id) gid: vec3u, "
            "@builtin(workgroup_id) w: vec3u, @builtin(local_invocation_index) lane: u32) "
            "{ x[w.x] = subgroupAdd(x[gid.x]) + lane; }")  # fmt: skip
    turned = reversed_source(kernel("enable subgroups;\n" + body), "main")
    assert turned is not None
    assert "let lane = forward_lane;" in turned
    assert "let w = forward_groups - 1u - forward_w;" in turned
    assert "enable" not in turned
    size = "vec3<u32>(u32(W), u32(1), u32(1))"
    assert f"let gid = (forward_groups - 1u - forward_gid / {size}) * {size} + forward_gid % {size};" in turned


def test_no_ids_have_no_order() -> None:
    assert reversed_source(kernel("@compute @workgroup_size(1) fn main() { x[0] = 1u; }"), "main") is None
    groups = "@compute @workgroup_size(1) fn main(@builtin(num_workgroups) n: vec3u) { x[0] = n.x; }"
    assert reversed_source(kernel(groups), "main") is None


def test_lines_and_names_stay() -> None:
    source = kernel(PLAIN.replace("n: vec3<u32>,", "n: vec3<u32>,\n").replace(IDS, "\nlet forward_gid = 1u;\n"))
    turned = reversed_source(source, "main")
    assert turned is not None
    assert turned.count("\n") == source.text.count("\n")
    assert "forward_gid_: vec3u" in turned
