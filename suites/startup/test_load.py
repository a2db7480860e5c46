"""Loading the plugin, each round in a fresh interpreter that has loaded pytest: at most 20 ms."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pytest_webgpu.performance.replay import replay, replayed_clock

LOAD = """
import time
import pytest
began = time.perf_counter()
import pytest_webgpu.plugin
print(time.perf_counter() - began)
"""
ROUNDS = 10


@pytest.mark.benchmark(timer=replayed_clock, group="startup")
def test_load_the_plugin(timed: None, benchmark: Any) -> None:
    command = [sys.executable, "-c", LOAD]
    seconds = [float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(ROUNDS)]
    assert replay(benchmark, seconds)
