"""What each fusion brings, added in turn: dispatches as issued, time, and logits that stay where they were."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
import torch

from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.cuda_control import measure_control
from pytest_webgpu.performance.replay import replay, replayed_clock
from pytest_webgpu.performance.stats import Comparison
from pytest_webgpu.plugin import state_of

from .running import Ladder


@pytest.mark.benchmark(timer=replayed_clock, group="fusions")
def test_fusion(ladder: Ladder, webgpu_runner: Runner, level: str, benchmark: Any, pytestconfig: pytest.Config) -> None:
    rung, before = ladder.rung(level)
    state, info, of = state_of(pytestconfig), webgpu_runner.info, ladder.measured
    state.record(
        "fusion", model=of.model, dtype=of.dtype, level=level, fusions=rung.level.text, dispatches=rung.dispatches,
        token_seconds=median(rung.token), first_token_seconds=median(rung.first_token),
        prompt_tokens=of.prompt_tokens, new_tokens=of.new_tokens, gain=_brief(rung.gain),
        gain_on_none=_brief(rung.gain_on_none), seconds_a_dispatch=of.seconds_a_dispatch(rung), apart=rung.apart,
        allowed=ladder.allowed, compared=rung.compared, notes=rung.notes, adapter=info.adapter, backend=info.backend,
        implementation=info.implementation, version=info.version, software=info.software,
    )  # fmt: skip
    named = {"dtype": of.dtype, "model": of.model}
    state.counted(info, f"dispatches a token, {level}", rung.dispatches, {level: rung.dispatches}, **named)
    assert before is None or rung.dispatches <= before.dispatches
    assert rung.apart <= ladder.allowed, f"fusions {rung.level.text} move a logit by {rung.apart:.3g}"
    assert replay(benchmark, rung.token, extra_info={**named, "dispatches": rung.dispatches})


def test_control_on_cuda(timed: None, webgpu_runner: Runner, pytestconfig: pytest.Config) -> None:
    """The same question where a launch is cheap: ops of torch on CUDA, eager and fused by torch.compile."""
    if not torch.cuda.is_available():
        pytest.skip("NOT MEASURED: no CUDA, so the paper's control has nothing to run on")
    state = state_of(pytestconfig)
    state.progress("fusions: the control on CUDA, eager and compiled")
    found = measure_control()
    for c in found:
        state.record("control", op=c.op, adapter=torch.cuda.get_device_name(), eager=c.eager.b.value,
                     fused=c.fused.b.value, gain=_brief(c.gain))  # fmt: skip
    assert all(c.gain.rounds for c in found)


def _brief(c: Comparison | None) -> dict[str, Any] | None:
    if c is None:
        return None
    return {"ratio": c.ratio, "low": c.low, "high": c.high, "p": c.p_slower, "verdict": c.verdict.value}
