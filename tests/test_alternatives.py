"""No false alarm: each op in other correct algorithms than the shipped kernels'."""

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.ops.contract import all_ops
from tests.alternatives import LIBRARY, hold

CASES = 50
OPS = [op.name for op in all_ops() if op.fn.__module__.startswith("pytest_webgpu.")]


@pytest.fixture(scope="module")
def runner():
    opened = open_runner(choose("auto", "wgpu-native", None))
    yield opened
    opened.close()


@pytest.mark.parametrize("kernel", LIBRARY.all(), ids=lambda k: k.name)
def test_a_correct_kernel_raises_no_alarm(kernel: KernelSource, runner) -> None:
    if lacking := kernel.features - set(runner.info.features):
        pytest.skip(f"the adapter lacks {', '.join(sorted(lacking))}")
    assert hold(kernel, runner, CASES).headroom <= 1


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_three_algorithms_with_halves_among_them(op: str) -> None:
    kernels = LIBRARY.for_op(op)
    assert len({k.path for k in kernels}) >= 3
    assert any(k.features or "f16x2" in k.header.storage.values() for k in kernels)
