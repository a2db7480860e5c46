"""A token's time predicted from parts that were measured each on its own, beside what it takes at each level of fusion.

Each kernel's own time is measured, for that way of predicting, without fusions and with all.
"""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

import pytest

from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.batch import measure_batch
from pytest_webgpu.performance.predict import Parts, finding, kernels_seconds, measure_parts, predict_rung
from pytest_webgpu.performance.replay import replay, replayed_clock
from pytest_webgpu.plugin import state_of
from pytest_webgpu.qwen2.config import find_model

from .running import Ladder


@pytest.fixture(scope="session")
def parts(timed: None, webgpu_runner: Runner, pytestconfig: pytest.Config) -> Parts:
    state_of(pytestconfig).progress("cost model: a dispatch, copy bandwidth and multiply-add rate")
    return measure_parts(webgpu_runner)


@pytest.mark.benchmark(timer=replayed_clock, group="cost model")
def test_prediction(
    ladder: Ladder, parts: Parts, webgpu_runner: Runner, level: str, benchmark: Any, pytestconfig: pytest.Config
) -> None:
    state, info, of = state_of(pytestconfig), webgpu_runner.info, ladder.measured
    rung, _ = ladder.rung(level)
    kernels = None
    if rung in (of.rungs[0], of.rungs[-1]):
        state.progress(f"cost model: the kernels of {of.model} {of.dtype}, fusions {level}, each by itself")
        start = of.prompt_tokens + of.new_tokens // 2
        kernels = kernels_seconds(webgpu_runner, rung.plan, state.kernels.all(), start)
    index, then = of.rungs.index(rung), ladder.beside.parts(parts)
    token, ways = predict_rung(then, of, rung, kernels, ladder.beside.api(index))
    found = finding(of, rung, token, ways, ladder.beside.device(index))
    state.record(
        "prediction", **found, adapter=info.adapter, backend=info.backend, implementation=info.implementation,
        version=info.version, software=info.software, parts=str(then),
    )  # fmt: skip
    assert all(p.predicted > 0 for p in ways.values())
    assert token.dispatches == rung.dispatches, "the work is that of the plan, which issues what was counted"
    predicted = {way: p.predicted for way, p in ways.items()}
    assert replay(benchmark, rung.token, extra_info={"predicted": predicted, "measured": median(rung.token)})


@pytest.mark.slow
def test_batch(parts: Parts, webgpu_runner: Runner, model: str, dtype: str, pytestconfig: pytest.Config) -> None:
    """From how many rows at once on kernels outweigh dispatches."""
    state, info = state_of(pytestconfig), webgpu_runner.info
    if info.software and model != "tiny":
        pytest.skip(f"NOT MEASURED: steps of many rows of {model} take minutes on a software adapter")
    found = measure_batch(
        webgpu_runner, find_model(model), dtype, parts, library=state.kernels, progress=state.progress
    )
    state.record(
        "batch", **asdict(found), measured=found.measured, adapter=info.adapter, backend=info.backend,
        implementation=info.implementation, version=info.version, software=info.software,
    )  # fmt: skip
    issued = [step.dispatches for step in found.steps]
    assert max(issued) <= 2 * min(issued), "more rows are more work a dispatch, not more dispatches"
