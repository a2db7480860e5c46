"""Every fault that a rewrite of a shipped kernel can make, one at a time: do the checks tell it?"""

from __future__ import annotations

from pytest_webgpu.kernels.source import KernelSource
from pytest_webgpu.subject import Subject, Wgsl

LEAST = 0.97  # of a kernel's faults


def test_mutants(wgsl: Wgsl, variants: tuple[KernelSource, ...]) -> None:
    found = Subject(wgsl, variants).mutate()
    names = "\n".join(m.name for m in found.survivors)
    assert found.share >= LEAST, f"{found.share:.1%} of {found.kernel}'s faults are told; not told:\n{names}"
