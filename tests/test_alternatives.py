"""No false alarm: each op in other correct algorithms than the shipped kernels'."""

import collections
from pathlib import Path

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.ops.contract import all_ops
from tests.alternatives import LIBRARY, hold

CASES = 50
KERNELS = LIBRARY.all()
OPS = [op.name for op in all_ops() if op.fn.__module__.startswith("pytest_webgpu.")]


@pytest.fixture(scope="module")
def runner():
    opened = open_runner(choose("auto", "wgpu-native", None))
    yield opened
    opened.close()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_a_correct_kernel_raises_no_alarm(kernel: KernelSource, runner) -> None:
    if lacking := kernel.features - set(runner.info.features):
        pytest.skip(f"the adapter lacks {', '.join(sorted(lacking))}")
    assert hold(kernel, runner, CASES).headroom <= 1


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_three_alternatives_and_one_that_holds_halves(op: str) -> None:
    algorithms = collections.defaultdict(set)
    for kernel in KERNELS:
        if kernel.header.op == op:
            algorithms[Path(kernel.path or "").name].add("f16" in kernel.name)
    assert len(algorithms) >= 3
