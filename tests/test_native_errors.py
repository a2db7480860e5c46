"""What a native device refuses, before anything is issued: an error inside a submit would end the process."""

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import (
    Bound,
    CompileError,
    Dispatch,
    Job,
    LimitError,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    MissingFeature,
    Slot,
    ValidationError,
)
from tests.test_native import ADD, BOUND, MAKE, SLOTS


@pytest.fixture(scope="module")
def runner():
    return open_runner(choose(), in_process=True)


def dispatch(*bound, n=1):
    return Dispatch("add", bound or BOUND, (n, 1, 1))


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (dispatch(n=65536), LimitError, "65536 workgroups along x; the limit max-compute-workgroups-per-dimension"),
        (dispatch(Bound(0, 0, "z"), BOUND[1]), ValidationError, "there is no buffer 'z'"),
        (dispatch(BOUND[0]), ValidationError, r"not bound: \[\(0, 1\)\]"),
        (dispatch(BOUND[0], Bound(0, 1, "x", 256)), ValidationError, "'x' is bound as read and as read_write"),
        (dispatch(BOUND[0], Bound(0, 1, "y", 4)), LimitError, "offset 4 of 'y' is no multiple of 256"),
        (dispatch(BOUND[0], Bound(0, 1, "y", 256, 256)), ValidationError, "256 bytes from 256 do not fit"),
        (Dispatch("sub", BOUND, (1, 1, 1)), ValidationError, "there is no pipeline 'sub'"),
    ],
)  # fmt: skip
def test_a_dispatch_that_would_end_the_process_is_refused_when_made(runner, bad, kind, message):
    runner.run(Job(MAKE))
    with pytest.raises(kind, match=message) as caught:
        runner.run(Job((MakeBuffer("w", 4), MakeProgram("bad", (dispatch(), bad)))))
    assert caught.value.command == 1
    assert "Program 'bad', dispatch 1" in caught.value.message


def test_a_binding_smaller_than_its_type_is_refused_when_made(runner):
    code = "struct U { a: vec4<f32>, b: vec4<f32> }\n@group(0) @binding(0) var<uniform> u: U;\n" + (
        "@group(0) @binding(1) var<storage, read_write> x: array<f32>;\n"
        "@compute @workgroup_size(1) fn main() { x[0] = u.b.x; }"
    )
    made = MakePipeline("u", code, "main", (Slot(0, 0, "uniform"), Slot(0, 1, "storage")))
    bound = (Bound(0, 0, "u"), Bound(0, 1, "x"))
    with pytest.raises(ValidationError, match="size 16 where the shader expects 32"):
        runner.run(Job((MakeBuffer("u", 16, "uniform"), MakeBuffer("x", 16), made,
                        MakeProgram("bad", (Dispatch("u", bound, (1, 1, 1)),)))))  # fmt: skip


def test_limits_of_pipelines_and_buffers(runner):
    with pytest.raises(LimitError, match="9 storage buffers; the limit max-storage-buffers-per-shader-stage is 8"):
        runner.run(Job((MakePipeline("p", ADD, "main", tuple(Slot(0, i, "storage") for i in range(9))),)))
    with pytest.raises(LimitError, match="16400 bytes of workgroup memory"):
        runner.run(Job((MakePipeline("p", ADD, "main", SLOTS, workgroup_bytes=16385),)))
    with pytest.raises(LimitError) as caught:
        runner.run(Job((MakePipeline("p", ADD.replace("64", "512"), "main", SLOTS),)))
    assert caught.value.details["code"] == ADD.replace("64", "512")
    with pytest.raises(LimitError, match="max-buffer-size is 268435456"):
        runner.run(Job((MakeBuffer("big", 1 << 40),)))


def test_a_compile_error_has_line_column_and_source(runner):
    code = "// first\n" + ADD.replace("+= y[", "+= z[")
    with pytest.raises(CompileError) as caught:
        runner.run(Job((MakePipeline("p", code, "main", SLOTS),)))
    assert caught.value.details == {"line": 6, "column": 42, "code": code}


def test_features_can_be_hidden():
    lesser = open_runner(choose(), without={"subgroups"}, in_process=True)
    assert "subgroups" not in lesser.info.features
    with pytest.raises(MissingFeature, match="no feature 'subgroups'"):
        lesser.run(Job((MakePipeline("p", ADD, "main", SLOTS, enable=("subgroups",)),)))


def test_limits_can_be_lowered():
    lesser = open_runner(choose(), limits={"maxComputeInvocationsPerWorkgroup": 32}, in_process=True)
    assert lesser.info.limits["max-compute-invocations-per-workgroup"] == 32
    with pytest.raises(LimitError):
        lesser.run(Job((MakePipeline("p", ADD, "main", SLOTS),)))


def test_of_several_pipelines_made_together_the_one_at_fault_is_named():
    fresh = open_runner(choose(), in_process=True)
    good = [MakePipeline(f"p{i}", ADD + f"\n// {i}", "main", SLOTS) for i in range(4)]
    wrong = MakePipeline("wrong", ADD, "no_such_entry", SLOTS)
    with pytest.raises(ValidationError, match="no_such_entry") as raised:
        fresh.run(Job((*good[:2], wrong, *good[2:])))
    assert raised.value.command == 2
    assert fresh.run(Job(tuple(good))).counts["pipelines"] == 2, "those before the wrong one were made and kept"
