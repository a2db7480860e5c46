"""`--webgpu-gate-self-test`: the gate against itself on this machine, and what it finds of slowdowns that are real."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_webgpu import options
from pytest_webgpu.gate import rehearsal, selftest
from pytest_webgpu.gpu.adapters import describe
from pytest_webgpu.gpu.job import NoAdapter, Runner
from pytest_webgpu.ops.launch import Unfit, launch
from pytest_webgpu.performance.prepare import Candidate
from pytest_webgpu.state import State

if TYPE_CHECKING:
    from pytest_webgpu.gpu.adapters import Adapter

SUBSET = {
    "mul": {"n": 1},
    "rms_norm": {"rows": 1, "cols": 896},
    "linear.gemv": {"rows": 1, "k": 896, "n": 128},
}
"""Kernels by file, and what they are timed at: a launch that does next to nothing, then two of Qwen2.5-0.5B's."""


def sessions(settings: options.Settings) -> int:
    """How many sessions, and trials of the paired rule. Raises pytest.UsageError for too few."""
    return options.whole(settings["gate-sessions"], "--webgpu-gate-sessions", rehearsal.LEAST_SESSIONS)


def run(config: pytest.Config, settings: options.Settings) -> Iterator[str]:
    """Measures on every target that was asked for, and says line by line what came of it."""
    count, state = sessions(settings), State(config, settings)
    for target in state.targets:
        try:
            adapter = state.adapter(target)
        except NoAdapter as error:
            raise pytest.UsageError(str(error)) from None
        yield describe(adapter)
        yield from _on(state, adapter, count)


def _on(state: State, adapter: Adapter, count: int) -> Iterator[str]:
    from pytest_webgpu.gpu import open_runner

    began, descriptor = time.monotonic(), state.descriptor()

    @contextmanager
    def opened() -> Iterator[Runner]:
        runner = open_runner(adapter, limits=descriptor["limits"], without=descriptor["without"])
        try:
            yield runner
        finally:
            runner.close()

    def progress(text: str) -> None:
        print(f"  {text}, {time.monotonic() - began:.0f} s", flush=True)

    with opened() as runner:
        chosen = [_candidate(state, runner, name, dims) for name, dims in SUBSET.items()]
        yield f"{count} sessions of {', '.join(c.key for c in chosen)}"
        for one in chosen:
            progress(f"paired rule, {count} trials of {one.key}")
            yield from selftest.told(selftest.self_test(runner, one, trials=count))
    measured = rehearsal.measure_sessions(opened, chosen, count, options.PROCESSES, progress)
    yield from rehearsal.told(rehearsal.rehearse(measured))
    yield f"{time.monotonic() - began:.0f} s in all"


def _candidate(state: State, runner: Runner, name: str, dims: dict[str, int]) -> Candidate:
    """The first variant of the file that the device can run at these dims."""
    for kernel in state.kernels.all():
        if kernel.path is not None and kernel.path.stem == name and kernel.features <= set(runner.info.features):
            contract = state.contract(kernel)
            try:
                launch(contract, kernel, dims, {})
            except Unfit:
                continue
            return Candidate(contract, kernel, dims)
    raise pytest.UsageError(f"no kernel {name} runs at {dims} on {runner.info.adapter}")
