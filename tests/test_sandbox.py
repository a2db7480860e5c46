"""A stranger's kernel may hang, burst or overrun: its own check fails, with a reason, and the next runs."""

import re
from pathlib import Path

import psutil
import pytest

from pytest_webgpu.conformance.check import ConformanceFailure, Settings, check
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import GpuError
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get
from tests.faulty_kernels import ADD
from tests.hostile_kernels import HOSTILE

SOON = Settings(max_examples=1, deadline=2)


@pytest.fixture(scope="module")
def runner():
    opened = open_runner(choose())
    yield opened
    opened.close()
    assert not [p for p in psutil.Process().children(recursive=True) if "pytest_webgpu.gpu.worker" in p.cmdline()]


def held(text, runner):
    kernel = parse_source(text, Path("mine.wgsl"))
    return check(get(kernel.header.op), kernel, runner, settings=SOON)


@pytest.mark.parametrize("name", HOSTILE)
def test_it_fails_with_a_reason_and_the_next_one_runs(name, runner):
    text, words = HOSTILE[name]
    assert text != ADD
    with pytest.raises((ConformanceFailure, KernelError, GpuError)) as failure:
        held(text, runner)
    assert re.search(words, str(failure.value).replace("\0", "")), str(failure.value)[:2000]
    assert held(ADD, runner).cases


def test_there_are_forty():
    assert len(HOSTILE) >= 40
