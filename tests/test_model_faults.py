"""The rest of CONFORMANCE.md's catalogue, on kernels of a model's ops: each fault is told."""

from pathlib import Path

import pytest

from pytest_webgpu.conformance.check import ConformanceFailure, Settings, check
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get
from tests.faulty_model_kernels import FAULTS, RIGHT

FEW = Settings(max_examples=3, deadline=10)


@pytest.fixture(scope="module")
def runner():
    opened = open_runner(choose())
    yield opened
    opened.close()


def held(text, runner):
    kernel = parse_source(text, Path("kernels/mine.wgsl")).variants()[-1]
    if kernel.features - set(runner.info.features):
        pytest.skip(f"the adapter lacks {', '.join(kernel.features)}")
    return check(get(kernel.header.op), kernel, runner, settings=FEW)


@pytest.mark.parametrize("name", RIGHT)
def test_a_correct_kernel_passes(name, runner):
    assert held(RIGHT[name], runner).headroom < 0.7


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told(name, runner):
    text, old, new, words = FAULTS[name]
    assert old in text
    with pytest.raises(ConformanceFailure) as failure:
        held(text.replace(old, new), runner)
    assert words in str(failure.value).splitlines()[0]
