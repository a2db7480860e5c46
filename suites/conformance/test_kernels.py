"""Every shipped kernel does what its op says."""

from __future__ import annotations

from pytest_webgpu.kernels.source import KernelSource
from pytest_webgpu.subject import Wgsl


def test_kernel(wgsl: Wgsl, kernel: KernelSource) -> None:
    wgsl.of(kernel).check()
