"""Which kernel a step gets, and why others do not."""

import re

import pytest

from pytest_webgpu.compiler.build import build
from pytest_webgpu.compiler.choose import Call, Chooser, Tuned
from pytest_webgpu.compiler.errors import NoKernel
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.kernels.source import read_source
from pytest_webgpu.ops import contract as contracts
from tests.steps import device, step
from tests.stub_kernels import stub, stub_library

NORM = Call("rms_norm", {"rows": 1, "cols": 64}, {"eps": 1e-6}, {"x": "f32", "weight": "f32", "out": "f32"})
LINEAR = Call("linear", {"rows": 1, "k": 64, "n": 8}, {}, {"x": "f32", "weight": "f32", "out": "f32"})
WRITE = Call("kv_cache_write", {"heads": 2, "capacity": 64, "head_dim": 16, "tokens": 1}, {},
             {"cache": "f32", "x": "f32"}, ("start",))  # fmt: skip


def kernels(folder, op, **texts: str) -> Library:
    """A library of variants of the stub of an op; each text is added to its header, or changes what `->` separates."""
    for name, change in texts.items():
        text = stub(contracts.get(op), without=("bias",), header="" if "->" in change else change)
        if "->" in change:
            old, new = change.split("->")
            assert old in text
            text = text.replace(old, new)
        (folder / f"{name}.wgsl").write_text(text)
    return Library(folder)


def chosen(library, call, info=None, **how) -> str:
    return Chooser(library, info or device(), **how).choose(call).kernel.name


def test_one_that_is_meant_for_the_dims_goes_first(tmp_path):
    library = kernels(tmp_path, "rms_norm", a="", few='//! prefer = ["rows <= 4"]', many='//! prefer = ["rows > 4"]')
    assert chosen(library, NORM) == "few"
    assert chosen(library, Call("rms_norm", {"rows": 9, "cols": 64}, NORM.scalars, NORM.stored)) == "many"


def test_one_for_the_devices_features_goes_first_and_only_there(tmp_path):
    library = kernels(tmp_path, "rms_norm", a="", fast="{ _ = x[0];->{ _ = subgroupAdd(x[0]);")
    assert chosen(library, NORM, device(["subgroups"])) == "fast"
    assert chosen(library, NORM) == "a"


def test_tuned_and_swapped(tmp_path):
    library = kernels(tmp_path, "rms_norm", a="", b="")
    key = ("rms_norm", (("cols", 64), ("rows", 1)), "f32")
    assert chosen(library, NORM, tuned={key: Tuned("b")}) == "b"
    mine = tmp_path / "mine" / "mine.wgsl"
    mine.parent.mkdir()
    mine.write_text(stub(contracts.get("rms_norm"), header='//! prefer = ["rows > 4"]'))
    assert chosen(Library(tmp_path).with_swaps([read_source(mine)]), NORM, tuned={key: Tuned("b")}) == "mine"


@pytest.mark.parametrize(
    ("change", "reason"),
    [('//! requires = ["cols % 128 == 0"]', r'"cols % 128 == 0" does not hold: cols = 64'),
     ("weight: array<f32>->weight: array<f16>", "needs the feature shader-f16"),
     ("@workgroup_size(1)->@workgroup_size(512)", "needs max-compute-invocations-per-workgroup of 512; .* has 256")],
)  # fmt: skip
def test_what_does_not_fit_is_said(tmp_path, change, reason):
    library = kernels(tmp_path, "rms_norm", one=change)
    with pytest.raises(NoKernel, match=rf"(?s)no kernel computes rms_norm at rows=1, cols=64.*one: .*{reason}"):
        Chooser(library, device()).choose(NORM)


def test_storages_must_be_those_of_the_plan(tmp_path):
    library = stub_library(tmp_path)
    assert chosen(library, LINEAR) == "linear.short"
    packed = Call("linear", LINEAR.dims, {}, {**LINEAR.stored, "weight": "f16x2", "bias": "f32"})
    assert chosen(library, packed) == "linear.f16x2"
    with pytest.raises(NoKernel, match="weight is f32 where i32 is stored"):
        Chooser(library, device()).choose(Call("linear", LINEAR.dims, {}, {**LINEAR.stored, "weight": "i32"}))


def test_as_many_buffers_as_the_device_binds(tmp_path):
    library = stub_library(tmp_path)
    with pytest.raises(NoKernel, match="needs max-storage-buffers-per-shader-stage of 3; the device has 2"):
        Chooser(library, device(max_storage_buffers_per_shader_stage=2)).choose(LINEAR)


def test_what_only_the_device_knows_is_read_there(tmp_path):
    text = stub(contracts.get("kv_cache_write"))
    declared = re.search(r"@group\(0\) @binding\((\d)\) var<storage, read> start: array<u32>;", text)
    uniform = text.replace(
        declared[0], f"struct P {{ start: u32 }}\n@group(0) @binding({declared[1]}) var<uniform> p: P;"
    ).replace("start[0]", "p.start")
    (tmp_path / "fixed.wgsl").write_text(uniform)
    with pytest.raises(NoKernel, match="does not read start from a buffer, and only the device knows it"):
        Chooser(Library(tmp_path), device()).choose(WRITE)
    (tmp_path / "reads.wgsl").write_text(text)
    assert chosen(Library(tmp_path), WRITE) == "reads"


def test_a_users_broken_kernel_is_an_error_not_a_reason(tmp_path):
    library = stub_library(tmp_path)
    mine = tmp_path / "mine" / "mine.wgsl"
    mine.parent.mkdir()
    mine.write_text(stub(contracts.get("rms_norm")).replace("eps", "epsilon").replace("x: array", "input: array"))
    with pytest.raises(KernelError, match=r"mine.wgsl"):
        Chooser(library.with_swaps([read_source(mine)]), device()).choose(NORM)


def test_a_swapped_kernel_stays_a_step_and_the_plan_says_so(tmp_path):
    """silu_mul would vanish into swiglu, in the joined product."""
    library = stub_library(tmp_path)
    mine = tmp_path / "mine" / "mine.wgsl"
    mine.parent.mkdir()
    mine.write_text(stub(contracts.get("silu_mul")))
    plan = build(step(1), Chooser(library.with_swaps([read_source(mine)]), device()))
    assert [s.kernel for s in plan.steps if s.op == "silu_mul"] == ["mine", "mine"]
    assert any("left apart, for the kernel that was swapped in for silu_mul" in note for note in plan.notes)
