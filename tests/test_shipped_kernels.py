"""What holds for every shipped kernel, seen without a device."""

import itertools

import pytest

torch = pytest.importorskip("torch")

from pytest_webgpu import resources  # noqa: E402
from pytest_webgpu.conformance.sizes import table  # noqa: E402
from pytest_webgpu.kernels.kernel import KernelSource  # noqa: E402
from pytest_webgpu.kernels.library import Library  # noqa: E402
from pytest_webgpu.ops.contract import all_ops, get  # noqa: E402
from pytest_webgpu.ops.launch import launch  # noqa: E402

KERNELS = Library(resources.folder("wgsl")).all()
OPS = [op for op in all_ops() if op.fn.__module__.startswith("pytest_webgpu.")]
STORAGE_BUFFERS, WORKGROUP_BYTES, INVOCATIONS = 8, 16384, 256  # WebGPU's default limits


@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_every_op_has_a_kernel_that_needs_no_feature(name: str) -> None:
    assert any(not k.features for k in KERNELS if k.header.op == name)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_default_limits_suffice_for_every_tunable(kernel: KernelSource) -> None:
    op = get(kernel.header.op)
    names = table(op, kernel, software=True).drawn[0]
    scalars = {s.name: names.get(s.name, s.default or 0) for s in op.scalars}
    for values in itertools.product(*kernel.header.tune.values()):
        tune = dict(zip(kernel.header.tune, values, strict=True))
        made = launch(op, kernel, {d: names[d] for d in op.dims}, scalars, tune)
        assert made.workgroup_memory <= WORKGROUP_BYTES
        for p in made.passes:
            x, y, z = kernel.workgroup_size(p.entry, made.overrides)
            assert x * y * z <= INVOCATIONS
            assert sum(a.role != "uniform" for a in made.bound(p.entry)) <= STORAGE_BUFFERS


@pytest.mark.parametrize("kernel", {k.path: k for k in KERNELS}.values(), ids=lambda k: k.name)
def test_a_file_begins_with_its_claim_then_says_what_it_computes(kernel: KernelSource) -> None:
    assert kernel.path is not None
    assert kernel.path.name.startswith(kernel.header.op + ".")
    lines = kernel.path.read_text().splitlines()
    says = next(line for line in lines if not line.startswith("//!"))
    assert says.startswith("// ")
    assert all(len(line) <= 120 for line in lines)
