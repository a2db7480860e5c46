"""`pytest rms_norm.wgsl` from the command to the verdict, each round a fresh process: at most 10 s are meant."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from pytest_webgpu import resources
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.replay import replay, replayed_clock

ROUNDS = 3


@pytest.mark.slow
@pytest.mark.benchmark(timer=replayed_clock, group="startup")
def test_check_one_file(timed: None, webgpu_runner: Runner, benchmark: Any) -> None:
    of = ("implementation", webgpu_runner.info.implementation), ("backend", webgpu_runner.info.backend)
    options = [f"--webgpu-{name}={value}" for name, value in of]
    command = [sys.executable, "-m", "pytest", "-q", str(resources.folder("wgsl") / "rms_norm.wgsl"), *options]
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - began)
        assert done.returncode == 0, done.stdout
    assert replay(benchmark, seconds)
