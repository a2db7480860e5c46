"""Kernels edited since a revision, each paired with what it was: `pytest suites/kernels --webgpu-against=REV`.

In one process, 24 interleaved rounds in random order; under `--webgpu-gate=fail` a kernel that got slower fails.
"""

from __future__ import annotations

import pytest

from pytest_webgpu.bench import race
from pytest_webgpu.gate.against import AgainstError
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.kernels.source import KernelSource
from pytest_webgpu.plugin import state_of

from .test_speed import LENGTHS, Speeds


@pytest.mark.parametrize("tokens", LENGTHS)
def test_against(
    timed: None, webgpu_runner: Runner, edited: KernelSource, tokens: int, request: pytest.FixtureRequest
) -> None:
    state = state_of(request.config)
    candidate = Speeds(webgpu_runner, state, []).candidate(edited, tokens)
    try:
        assert race(state, webgpu_runner, edited, dict(candidate.dims), candidate.scalars)
    except AgainstError as error:
        pytest.fail(f"--webgpu-against={state.settings['against']}: {error}", pytrace=False)
