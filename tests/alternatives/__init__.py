"""Other correct algorithms for each op, which no check may call wrong. A file: OP.ALGORITHM.wgsl."""

from __future__ import annotations

from pathlib import Path

from pytest_webgpu.conformance.check import Report, Settings, check
from pytest_webgpu.conformance.inputs import fixed_cases
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.kernels.source import KernelSource
from pytest_webgpu.ops.contract import get

LIBRARY = Library(Path(__file__).parent)
BATCH, FIRST = 4, 24  # cases that Hypothesis draws at a time, nearly; that the first few batches have too few


def hold(kernel: KernelSource, runner: Runner, cases: int) -> Report:
    """Checks a kernel on at least so many cases, fixed ones and drawn ones. Raises ConformanceFailure."""
    contract = get(kernel.header.op)
    drawn = cases - len(fixed_cases(contract, kernel, runner.info.software))
    report = check(contract, kernel, runner, settings=Settings(max_examples=1 + max(0, drawn + FIRST) // BATCH))
    assert report.cases >= cases, f"{kernel.name}: {report.cases} cases where {cases} were asked for"
    return report
