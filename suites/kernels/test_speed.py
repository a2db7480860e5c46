"""Every shipped kernel at the model's shapes: its time, and its share of what the adapter can do."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pytest

from pytest_webgpu.gpu.job import DeadlineExceeded, Runner
from pytest_webgpu.kernels.source import KernelSource
from pytest_webgpu.ops.launch import Unfit, launch, prefers
from pytest_webgpu.performance.kernel import Times, time_kernels
from pytest_webgpu.performance.prepare import Candidate
from pytest_webgpu.performance.replay import replay, replayed_clock
from pytest_webgpu.performance.roofline import Roofline, measure_roofline
from pytest_webgpu.plugin import state_of
from pytest_webgpu.state import State

from .shapes import dims_of, scalars_of

LENGTHS = [1, pytest.param(16, marks=pytest.mark.slow), pytest.param(512, marks=pytest.mark.slow)]
BUDGET, SLOW_BUDGET = 0.4, 4.0  # seconds a kernel; for those that a software adapter needs tens of milliseconds for


class Speeds:
    """Times the selected kernels of an op together, interleaved, when the first of them asks."""

    def __init__(self, runner: Runner, state: State, items: list[pytest.Item]) -> None:
        self.runner, self.state = runner, state
        self.selected: dict[tuple[str, int], dict[str, KernelSource]] = {}
        for item in items:
            if getattr(item, "function", None) is test_speed and isinstance(item, pytest.Function):
                kernel, tokens = item.callspec.params["kernel"], item.callspec.params["tokens"]
                self.selected.setdefault((kernel.header.op, tokens), {})[kernel.name] = kernel
        self.times: dict[tuple[str, int], Times] = {}

    @cached_property
    def roofline(self) -> Roofline:
        self.state.progress("kernels: the adapter's copy bandwidth and multiply-add rate")
        return measure_roofline(self.runner)

    def candidate(self, kernel: KernelSource, tokens: int) -> Candidate:
        """Skips the test where the kernel cannot run at the model's shape, with the reason."""
        op = self.state.contract(kernel)
        dims = dims_of(op.name, tokens, self.runner.info.software)
        if dims is None:
            pytest.skip(f"the model has no shape for {op.name}")
        missing = sorted(kernel.features - set(self.runner.info.features))
        if missing:
            pytest.skip(f"no {', '.join(missing)} on {self.runner.info.adapter} ({self.runner.info.backend})")
        scalars = scalars_of(op.name, tokens)
        try:
            launch(op, kernel, dims, scalars)
        except Unfit:
            pytest.skip("made for other shapes than the model's")
        if self.runner.info.software and not prefers(op, kernel, dims, scalars):
            pytest.skip("prefers other shapes, and a software adapter would take long to show it")
        return Candidate(op, kernel, dims, scalars)

    def of(self, op: str, tokens: int) -> Times:
        if (op, tokens) not in self.times:
            self.state.progress(f"kernels: {op} at {tokens} tokens")
            candidates = []
            for kernel in self.selected[op, tokens].values():
                try:
                    candidates.append(self.candidate(kernel, tokens))
                except pytest.skip.Exception:
                    continue
            try:
                timed = self._timed(candidates)
            except DeadlineExceeded as error:
                if not self.runner.info.software:
                    raise
                timed = Times({}, {c.key: f"too slow on a software adapter: {error}" for c in candidates})
            self.times[op, tokens] = timed
        return self.times[op, tokens]

    def _timed(self, candidates: list[Candidate]) -> Times:
        """All together, then in few launches those that take too long for that."""
        timed = time_kernels(self.runner, candidates, roofline=self.roofline, rounds=10, budget=BUDGET)
        slow = [c for c in candidates if c.key in timed.not_measured]
        if not slow:
            return timed
        more = time_kernels(
            self.runner, slow, roofline=self.roofline, rounds=3, budget=SLOW_BUDGET, launches=(1, 2, 3), warm_up=0
        )
        return Times({**timed.measured, **more.measured}, more.not_measured)


@pytest.fixture(scope="session")
def speeds(timed: None, webgpu_runner: Runner, request: pytest.FixtureRequest) -> Speeds:
    return Speeds(webgpu_runner, state_of(request.config), request.session.items)


@pytest.mark.benchmark(timer=replayed_clock, group="kernels")
@pytest.mark.parametrize("tokens", LENGTHS)
def test_speed(speeds: Speeds, kernel: KernelSource, tokens: int, benchmark: Any) -> None:
    candidate = speeds.candidate(kernel, tokens)
    times = speeds.of(candidate.op.name, tokens)
    if candidate.key in times.not_measured:
        pytest.skip(f"NOT MEASURED: {times.not_measured[candidate.key]}")
    one, info = times.measured[candidate.key], speeds.runner.info
    assert one.share is not None
    speeds.state.record(
        "kernel", key=candidate.key, op=candidate.op.name, dtype="f16" if "f16" in kernel.name else "f32",
        seconds=one.time.value, flops_per_second=one.flops_per_second, bytes_per_second=one.bytes_per_second,
        share=one.share.value, share_low=one.share.low, share_high=one.share.high, limit=one.limit,
        adapter=info.adapter, backend=info.backend, implementation=info.implementation, version=info.version,
        software=info.software,
    )  # fmt: skip
    speeds.state.measured(
        info, f"kernel {candidate.key}", one.time.per_round, one.time.value, "kernels", kernel=kernel
    )
    assert replay(benchmark, one.time.per_round, extra_info={"share": one.share.value, "limit": one.limit})
