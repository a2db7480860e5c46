"""Cases a second to which a kernel is held, pipelines and buffers reused: a round is a batch, shown as time a case.

Of 1,000 elements, each case in as many variants as a check takes. What is meant to be reached: on a software adapter
of two cores 200 of an op by elements and 100 of rms_norm, through a browser 30.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_webgpu.conformance.check import Check, one_thread
from pytest_webgpu.conformance.inputs import Case
from pytest_webgpu.conformance.patterns import PATTERNS
from pytest_webgpu.conformance.settings import BATCH, Settings
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.ops.contract import get
from pytest_webgpu.performance.replay import replay, replayed_clock
from pytest_webgpu.plugin import state_of

OF = {"add[f32]": {"n": 1000}, "rms_norm[f32]": {"rows": 1, "cols": 1000}}


@pytest.mark.benchmark(timer=replayed_clock, group="conformance")
@pytest.mark.parametrize("name", OF)
def test_cases_a_second(
    timed: None, webgpu_runner: Runner, name: str, benchmark: Any, pytestconfig: pytest.Config
) -> None:
    (kernel,) = (k for k in state_of(pytestconfig).kernels.all() if k.name == name)
    op = get(kernel.header.op)
    held = Check(op, kernel, webgpu_runner, Settings())
    scalars = {s.name: 1e-6 for s in op.scalars}
    patterns = [*PATTERNS] * (2 * BATCH)
    batches = [patterns[i : i + BATCH] for i in range(0, len(patterns), BATCH)]
    seconds = [_seconds(held, [Case(OF[name], scalars, p, i) for p in b]) for i, b in enumerate([batches[0], *batches])]
    assert held.report.cases == BATCH * (len(batches) + 1)
    rounds = seconds[1:]  # the first one compiles
    assert replay(benchmark, rounds, extra_info={"cases_per_second": 1 / statistics.median(rounds)})


def _seconds(held: Check, batch: Sequence[Case]) -> float:
    with one_thread():  # as a check does
        began = time.perf_counter()
        held.hold(batch)
        return (time.perf_counter() - began) / len(batch)
