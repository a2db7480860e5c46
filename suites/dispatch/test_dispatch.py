"""What a dispatch costs: T(N) = a + b N in each mode, then one factor at a time; each layer of a framework.

The rounds shown are those of b. By default in at most 60 s an adapter; in full, every factor in every mode, with
`-m slow`.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_webgpu.gpu.job import DeviceInfo, Runner
from pytest_webgpu.performance.dispatch import measure_dispatch, setups
from pytest_webgpu.performance.dispatch_report import DispatchReport
from pytest_webgpu.performance.framework import COMPILED, LAYERS, Layer, compiled_calls, measure_framework
from pytest_webgpu.performance.replay import replay, replayed_clock
from pytest_webgpu.performance.stats import MeasurementError
from pytest_webgpu.plugin import state_of

_EVERY_FEATURE = DeviceInfo("", "", "", "", "", "", False, ("shader-f16",), {})
FIGURES = [("quick", s.label) for s in setups(_EVERY_FEATURE, quick=True)]
IN_FULL = [pytest.param("full", s.label, marks=pytest.mark.slow) for s in setups(_EVERY_FEATURE, quick=False)]


@pytest.fixture(scope="session")
def report(timed: None, webgpu_runner: Runner, effort: str, pytestconfig: pytest.Config) -> DispatchReport:
    state = state_of(pytestconfig)

    def progress(text: str) -> None:
        state.progress(f"dispatch: {text}")

    measured = measure_dispatch(webgpu_runner, quick=effort == "quick", progress=progress)
    state.record("dispatch", **measured.finding())
    return measured


@pytest.mark.benchmark(timer=replayed_clock, group="dispatch")
@pytest.mark.parametrize(("effort", "label"), [*FIGURES, *IN_FULL], scope="session")
def test_cost_of_a_dispatch(report: DispatchReport, label: str, benchmark: Any, pytestconfig: pytest.Config) -> None:
    if label not in report.figures:
        told = [text for text in report.cut if text.startswith(f"{label}: not measured")]
        lacking = f"no shader-f16 on {report.info.adapter} ({report.info.backend})"
        pytest.skip(f"NOT MEASURED: {told[0]}" if told else lacking)
    fit = report.figures[label].fit
    figures = {"a": fit.a, "b": fit.b}
    info: dict[str, Any] = {f"{n}{part}": v for n, e in figures.items() for part, v in
                            (("", e.value), ("_low", e.low), ("_high", e.high))}  # fmt: skip
    info |= {"naive": report.figures[label].naive, "fence": report.fence}
    assert replay(benchmark, fit.b.per_round, extra_info=info)
    state_of(pytestconfig).measured(report.info, f"dispatch, {label}", fit.b.per_round, fit.b.value, "dispatch")


@pytest.fixture(scope="session")
def layers(timed: None, webgpu_runner: Runner, pytestconfig: pytest.Config) -> dict[str, Layer]:
    state, info = state_of(pytestconfig), webgpu_runner.info
    state.progress("dispatch: recorded, replayed, asked for by a job, called as torch.compile made it")
    try:
        with compiled_calls(webgpu_runner) as calls:
            found = measure_framework(webgpu_runner, calls={COMPILED: calls})
    except MeasurementError as error:
        pytest.skip(f"NOT MEASURED: {error}")
    state.record(
        "framework", adapter=info.adapter, backend=info.backend, software=info.software,
        implementation=info.implementation,
        layers=[
            {"name": one.name, "a": one.line.a.value, "b": one.line.b.value, "low": one.line.b.low,
             "high": one.line.b.high, "more_a": one.more_a, "more_b": one.more_b}
            for one in found
        ],
    )  # fmt: skip
    return {one.name: one for one in found}


@pytest.mark.benchmark(timer=replayed_clock, group="framework")
@pytest.mark.parametrize("layer", [*LAYERS, COMPILED])
def test_layer_of_the_framework(layers: dict[str, Layer], layer: str, benchmark: Any) -> None:
    line = layers[layer].line
    assert replay(benchmark, line.b.per_round, extra_info={"a": line.a.value, "b": line.b.value})
