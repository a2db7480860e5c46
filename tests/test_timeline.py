"""A timeline of a token: what the host and the device did when, in Perfetto's format, and the memory it took."""

import json

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import Drop, Job, MakeBuffer, MeasureDeviceTime, MeasureMemory, Trace
from pytest_webgpu.performance.timeline import Timeline, TraceFile

from .test_collect import ADD, kernel
from .test_native import MAKE

NAMES = ["encoder", "pass-begin", "dispatch", "dispatch", "dispatch", "pass-end", "finish", "submit", "wait"]


@pytest.fixture(scope="module")
def native():
    runner = open_runner(choose())
    yield runner
    runner.close()


def traced(runner):
    result = runner.run(Job((*MAKE, Trace("thrice"))))
    host = result.values[-1]["host"]
    assert [name for name, *_ in host] == NAMES
    assert all(begin <= end for _, begin, end in host)
    assert [begin for _, begin, _ in host[1:]] == [end for *_, end in host[:-1]]
    assert result.counts["dispatches"] == 6, "once to warm up and once to be traced"


def remembered(runner):
    runner.run(Job((MeasureMemory(),)))
    values = runner.run(Job((
        MeasureMemory(), MakeBuffer("m0", 1 << 20), MakeBuffer("m1", 1 << 20), Drop(("m0",)), MeasureMemory(),
        Drop(("m1",)), MeasureMemory(),
    ))).values  # fmt: skip
    before, both, after = values[0], values[4], values[6]
    assert both["peak_bytes"] - before["bytes"] == 2 << 20
    assert both["bytes"] - before["bytes"] == 1 << 20
    assert after == {"bytes": before["bytes"], "peak_bytes": before["bytes"] + (1 << 20)}


def test_on_a_native_device(native):
    traced(native)
    remembered(native)


def test_in_browsers(browser):
    traced(browser)
    remembered(browser)


def test_dispatches_begin_one_after_another(native):
    if "timestamp-query" not in native.info.features:
        pytest.skip("no timestamps")
    value = native.run(Job((*MAKE, MeasureDeviceTime("thrice", rounds=2)))).values[-1]
    for began in value["began_seconds"]:
        assert began[0] == 0.0
        assert began == sorted(began)


def test_runs_share_a_file_that_perfetto_reads(tmp_path):
    file = TraceFile(tmp_path / "sub" / "token.json")
    one = Timeline("tiny f32", [("encoder", 0.0, 2e-6)], [("add", 5e-6, 9e-6)], ["add"], 4096, None)
    file.add(one)
    file.add(Timeline("tiny f16", [("encoder", 0.0, 1e-6)], [], ["add"], 2048, 1 << 30))
    events = json.loads(file.path.read_text())["traceEvents"]
    drawn = [(e["pid"], e["tid"], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert drawn == [
        (1, 1, "encoder", 0.0, pytest.approx(2.0)),
        (1, 2, "add", pytest.approx(5.0), pytest.approx(4.0)),
        (2, 1, "encoder", 0.0, pytest.approx(1.0)),
    ]
    assert [e["args"]["buffers, peak bytes"] for e in events if e["ph"] == "C"] == [4096, 2048]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["tiny f32", "tiny f16"]


def test_from_the_run_that_times_a_kernel(pytester: pytest.Pytester):
    kernel(pytester, ADD)
    asked = ("mine.wgsl", "-k", "speed", "--webgpu-bench", "--webgpu-dims=n=4096", "--webgpu-trace=token.json")
    result = pytester.runpytest_subprocess(*asked)  # it imports transformers, which cannot be imported a second time
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["timeline of a token of tiny f32, fusions all: token.json, * took at most * MB"])
    names = {e["name"] for e in json.loads((pytester.path / "token.json").read_text())["traceEvents"]}
    assert {"encoder", "submit", "wait"} < names
