"""A software adapter gets the tunables that a kernel's [software] names, a GPU the first of each list."""

import dataclasses
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_webgpu.compiler.choose import Call, Chooser, Tuned  # noqa: E402
from pytest_webgpu.gpu.job import DeviceInfo  # noqa: E402
from pytest_webgpu.kernels.library import Library  # noqa: E402

KERNEL = """//! op = "neg"
//! workgroups = ["d3"]
//! [tune]
//! WG = [128, 8]
//! [software]
//! WG = 8
override WG = 128;
@group(0) @binding(0) var<storage> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(WG) fn main() { out[0] = -a[0]; }
"""
GPU = DeviceInfo("wgpu-native", "0", "vulkan", "a GPU", "", "", False, (), {})
CALL = Call("neg", {"a_size": 1, "d0": 1, "d1": 1, "d2": 1, "d3": 1}, {}, {"a": "f32", "out": "f32"})


@pytest.mark.parametrize(("software", "workgroup"), [(False, 128), (True, 8)])
def test_untuned(tmp_path: Path, software: bool, workgroup: int) -> None:
    (tmp_path / "neg.wgsl").write_text(KERNEL)
    chooser = Chooser(Library(tmp_path), dataclasses.replace(GPU, software=software))
    assert chooser.choose(CALL).launch.overrides == {"WG": workgroup}


def test_what_was_tuned_wins(tmp_path: Path) -> None:
    (tmp_path / "neg.wgsl").write_text(KERNEL)
    info = dataclasses.replace(GPU, software=True)
    found = {Chooser(Library(tmp_path), info).tune_key(CALL): Tuned("neg", {"WG": 128})}
    assert Chooser(Library(tmp_path), info, tuned=found).choose(CALL).launch.overrides == {"WG": 128}
