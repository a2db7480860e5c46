"""The worker process: what kills a process or hangs it kills or hangs the worker alone."""

import dataclasses
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import (
    Bound,
    CompileError,
    DeadlineExceeded,
    Dispatch,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    NoAdapter,
    OutOfMemory,
    ReadBuffer,
    RunnerDied,
    RunProgram,
    Slot,
    ValidationError,
    WriteBuffer,
)

HEAD = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n"
FINE = HEAD + "@compute @workgroup_size(1) fn main() { x[0] = 7u; }"
ENDLESS = HEAD + "@compute @workgroup_size(1) fn main() { loop { if x[0] == 7u { break; } x[1] += 1u; } }"
DEEP = HEAD + f"@compute @workgroup_size(1) fn main() {{ x[0] = {'(' * 100_000}1u{')' * 100_000}; }}"
PRIVATE = HEAD + (
    "@compute @workgroup_size(1) fn main() { var a: array<u32, 1000000>;"
    "for (var i = 0u; i < 1000000u; i++) { a[i] = i * x[0]; } x[0] = a[x[1]]; }"
)


@pytest.fixture(scope="module")
def runner():
    with_worker = open_runner(choose())
    yield with_worker
    with_worker.close()


def job(code):
    return Job((
        MakeBuffer("x", 16),
        MakePipeline("p", code, "main", (Slot(0, 0, "storage"),)),
        MakeProgram("g", (Dispatch("p", (Bound(0, 0, "x"),), (1, 1, 1)),)),
        RunProgram("g", wait=True),
        ReadBuffer("x", 0, 4),
    ))  # fmt: skip


def assert_serves(runner):
    assert bytes(runner.run(job(FINE)).blob(-1)) == b"\7\0\0\0"


def test_a_job_and_its_counts(runner):
    counts = runner.run(job(FINE)).counts
    assert (counts["dispatches"], counts["passes"], counts["waits"], counts["reads"]) == (1, 1, 1, 1)


def test_an_error_of_the_job_leaves_the_worker_alive(runner):
    before = runner.generation
    with pytest.raises(CompileError) as caught:
        runner.run(job(FINE.replace("7u", "seven")))
    assert (caught.value.command, caught.value.details["line"]) == (1, 2)
    assert runner.generation == before


@pytest.mark.parametrize("code", [ENDLESS, PRIVATE], ids=["endless loop", "huge private array"])
def test_a_hang_is_killed_and_a_fresh_worker_serves(runner, code):
    before, process = runner.generation, runner._process
    with pytest.raises(DeadlineExceeded, match=r"did not end in 1\.5 s: its process was killed"):
        runner.run(job(code), deadline=1.5)
    assert runner.generation == before + 1
    assert not psutil.pid_exists(process.pid)
    assert_serves(runner)


def test_a_crash_says_why_and_a_fresh_worker_serves(runner):
    before = runner.generation
    with pytest.raises(RunnerDied, match="stack overflow") as caught:
        runner.run(job(DEEP))
    assert "SIGSEGV" in caught.value.details["reason"]
    assert runner.generation == before + 1
    assert_serves(runner)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit, which Linux has")
def test_memory_that_runs_out_ends_the_job_alone(runner):
    assert_serves(runner)
    most = psutil.Process(runner._process.pid).memory_info().vms + (400 << 20)
    resource.prlimit(runner._process.pid, resource.RLIMIT_AS, (most, most))
    commands = [c for n in range(8) for c in (MakeBuffer(f"b{n}", 128 << 20), ReadBuffer(f"b{n}", 0, 4))]
    with pytest.raises((OutOfMemory, RunnerDied), match="memory"):
        runner.run(Job(tuple(commands)))
    assert_serves(runner)


def test_what_the_system_kills_for_memory_says_so(runner):
    runner._process.send_signal(signal.SIGKILL)
    with pytest.raises(RunnerDied, match="memory runs out"):
        runner.run(job(FINE))
    assert_serves(runner)


def test_named_things_are_gone_after_a_restart(runner):
    assert_serves(runner)
    runner._process.kill()
    with pytest.raises(RunnerDied):
        runner.run(Job(()))
    with pytest.raises(ValidationError, match="There is no buffer 'x'; there are: none"):
        runner.run(Job((ReadBuffer("x"),)))


def test_large_blobs_pass_both_ways(runner):
    data = os.urandom(1 << 20) * 70  # more than one staging chunk
    result = runner.run(Job((MakeBuffer("w", len(data)), WriteBuffer("w", data), ReadBuffer("w"))))
    assert result.blob(-1) == data
    assert result.counts["bytes_written"] == result.counts["bytes_read"] == len(data)


def test_a_worker_that_cannot_start_says_why_and_is_gone():
    adapter = choose()
    elsewhere = dataclasses.replace(adapter, info=dataclasses.replace(adapter.info, adapter="RTX 9090"))
    before = {p.pid for p in psutil.Process().children()}
    with pytest.raises(NoAdapter, match=r"The adapter 'RTX 9090' \(number 1\) on '\w+' is not there.\nThere is:"):
        open_runner(elsewhere)
    assert {p.pid for p in psutil.Process().children()} == before


def test_close_leaves_no_process():
    other = open_runner(choose())
    process = other._process
    other.close()
    assert process.returncode == 0
    assert not psutil.pid_exists(process.pid)


def test_a_hanging_worker_ends_with_a_parent_that_is_killed():
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_worker as t;"
        "r = t.open_runner(t.choose());"
        "print(r._process.pid, flush=True); r.run(t.job(t.ENDLESS))"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    worker = psutil.Process(int(parent.stdout.readline()))
    time.sleep(1.0)  # the job is in the worker
    parent.kill()
    parent.wait()
    parent.stdout.close()
    worker.wait(timeout=10)
    assert not worker.is_running()
