"""The same job on every adapter of this machine, by every native implementation that is installed."""

import importlib.util
import struct

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import MODULES, list_adapters
from pytest_webgpu.gpu.job import (
    MODES,
    Collect,
    CompileError,
    Dispatch,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    MeasureDeviceTime,
    ReadBuffer,
    RunProgram,
    Slot,
    WriteBuffer,
)
from tests.test_native import ADD, BOUND, SLOTS, floats

HALF = """//! op = "half"
enable f16;
enable subgroups;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
override FACTOR: f32;
@compute @workgroup_size(1)
fn main() { x[0] = f32(f16(y[1]) * f16(FACTOR)) * f32(subgroupAdd(1u)); }"""


@pytest.fixture(params=MODULES)
def runners(request):
    if importlib.util.find_spec(MODULES[request.param]) is None:
        pytest.skip(f"{MODULES[request.param]} is not installed")
    return [open_runner(adapter, in_process=True) for adapter in list_adapters(request.param)]


def test_results_and_counts_are_the_same_everywhere(runners):
    commands = [
        MakeBuffer("x", 400),
        MakeBuffer("y", 400),
        WriteBuffer("y", struct.pack("100f", *range(100))),
        MakePipeline("add", ADD, "main", SLOTS),
        MakeProgram("twice", (Dispatch("add", BOUND, (2, 1, 1)),) * 2),
        *(RunProgram("twice", times=3, mode=mode) for mode in MODES),
        RunProgram("twice", times=30, wait=True, collect=Collect("x", 4, 4)),
        ReadBuffer("x"),
    ]
    assert runners
    for runner in runners:
        result = runner.run(Job(tuple(commands)))
        assert floats(result.blob(-1)) == tuple(84.0 * n for n in range(100))
        assert floats(result.blob(-2)) == tuple(24.0 + 2 * n for n in range(1, 31))
        counts = result.counts
        assert (counts["dispatches"], counts["submits"], counts["reads"]) == (84, 3 + 3 + 6 + 6 + 30 + 1, 2)


def test_device_time_of_each_dispatch(runners):
    loop = ADD.replace("x[i.x] += y[i.x];", "for (var k = 0u; k < N; k++) { x[i.x] = x[i.x] * 0.5 + y[i.x]; }")
    code = f"override N: u32;\n{loop}"
    for runner in runners:
        if "timestamp-query" not in runner.info.features:
            continue
        dispatches = tuple(Dispatch(name, BOUND, (2, 1, 1)) for name in ("short", "long"))
        made = (
            MakeBuffer("x", 400),
            MakeBuffer("y", 400),
            MakePipeline("short", code, "main", SLOTS, {"N": 1}),
            MakePipeline("long", code, "main", SLOTS, {"N": 20_000}),
            MakeProgram("both", dispatches),
        )
        result = runner.run(Job((*made, MeasureDeviceTime("both", rounds=5))))
        seconds = result.values[-1]["seconds"]
        assert [len(a_round) for a_round in seconds] == [2] * 5
        assert min(long for _, long in seconds) > min(short for short, _ in seconds) > 0
        assert 0 < result.values[-1]["quantum_seconds"] < 65e-6
        whole = runner.run(Job((MeasureDeviceTime("both", rounds=3, repeats=4),)))
        assert [len(a_round) for a_round in whole.values[-1]["seconds"]] == [1] * 3
        assert min(one for (one,) in whole.values[-1]["seconds"]) > min(short for short, _ in seconds)
        assert (whole.counts["dispatches"], whole.counts["passes"]) == (2 * 4 * 4, 4)


def test_one_source_enables_features_for_each_compiler(runners):
    for runner in runners:
        if not {"shader-f16", "subgroups"} <= {*runner.info.features}:
            continue
        made = (
            MakeBuffer("x", 4),
            MakeBuffer("y", 8),
            WriteBuffer("y", struct.pack("2f", 0.0, 2.5)),
            MakePipeline("half", HALF, "main", SLOTS, {"FACTOR": 3.0}),
            MakeProgram("half", (Dispatch("half", BOUND, (1, 1, 1)),)),
            RunProgram("half"),
            ReadBuffer("x"),
        )
        assert floats(runner.run(Job(made)).blob(-1)) == (7.5,)


def test_warnings_of_the_compiler_come_back(runners):
    code = ADD.replace("\n}", "\n  return;\n  x[0] = 1.0;\n}")
    for runner in runners:
        (value,) = runner.run(Job((MakePipeline("warned", code, "main", SLOTS),))).values
        naga = runner.info.implementation == "wgpu-native"
        assert value["warnings"] == ([] if naga else ["line 7: code is unreachable"])


def test_the_line_of_an_error_is_the_same_everywhere(runners):
    for runner in runners:
        code = ADD.replace("+= y[", "+= z[")
        with pytest.raises(CompileError) as caught:
            runner.run(Job((MakePipeline("bad", code, "main", (Slot(0, 0, "storage"),)),)))
        assert (caught.value.details["line"], caught.value.details["code"]) == (5, code)
        assert caught.value.message.splitlines()[0].endswith(("`z`", "'z'"))
