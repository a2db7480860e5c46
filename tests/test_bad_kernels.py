"""A kernel that does harm fails alone, with its reason; the next one runs, and no process is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from pytest_webgpu.conformance.check import ConformanceFailure, Settings, check
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import GpuError, Runner
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import ContractError, get
from tests.bad_kernels import BAD
from tests.faulty_kernels import ADD

pytestmark = pytest.mark.slow
SOON = Settings(max_examples=1, deadline=1.0)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    opened = open_runner(choose("auto", "wgpu-native", None))
    yield opened
    opened.close()


def held(text: str, runner: Runner, settings: Settings = SOON) -> int:
    kernel = parse_source(text, "bad.wgsl")
    return check(get(kernel.header.op), kernel, runner, settings=settings).cases


def test_there_are_forty() -> None:
    assert len(BAD) >= 40


@pytest.mark.parametrize("name", BAD)
def test_it_fails_alone(name: str, runner: Runner) -> None:
    text, words = BAD[name]
    with pytest.raises((ConformanceFailure, KernelError, ContractError, GpuError)) as failure:
        held(text, runner)
    assert words in str(failure.value)
    workers = [p for p in psutil.Process().children(recursive=True) if "pytest_webgpu.gpu.worker" in p.cmdline()]
    assert len(workers) <= 1


def test_the_next_one_runs(runner: Runner) -> None:
    assert held(ADD, runner, Settings(max_examples=1))
