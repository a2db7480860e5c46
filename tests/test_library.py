"""A folder of kernels, by op, with a user's own put before them."""

from pathlib import Path

import pytest

from pytest_webgpu.kernels.library import Library
from pytest_webgpu.kernels.source import KernelError, parse_source

MAIN = "@compute @workgroup_size(64) fn main() {}\n"


def kernel(op: str, types: str = "") -> str:
    typed = f"//! [types]\n//! elem = {types}\nalias elem = f32;\n" if types else ""
    return f'//! op = "{op}"\n//! workgroups = ["1"]\n{typed}{MAIN}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.wgsl").write_text(kernel("add", '["f32", "f16"]'))
    (tmp_path / "linear.gemv.wgsl").write_text(kernel("linear"))
    (tmp_path / "linear.tiled.wgsl").write_text(kernel("linear"))
    (tmp_path / "equivalent.toml").write_text("reasons = 1\n")
    return tmp_path


def test_all_and_for_op(folder: Path) -> None:
    library = Library(folder)
    assert [k.name for k in library.all()] == ["add[f32]", "add[f16]", "linear.gemv", "linear.tiled"]
    assert [k.name for k in library.for_op("linear")] == ["linear.gemv", "linear.tiled"]
    assert library.for_op("softmax") == []


def test_swaps_come_first(folder: Path) -> None:
    mine = parse_source(kernel("linear") + "// mine", "mine.wgsl")
    library = Library(folder).with_swaps([mine])
    assert [k.name for k in library.for_op("linear")] == ["mine", "linear.gemv", "linear.tiled"]
    assert [library.is_swapped(k) for k in library.for_op("linear")] == [True, False, False]
    assert [k.name for k in Library(folder).for_op("linear")] == ["linear.gemv", "linear.tiled"]


def test_a_side_file_says_the_op(folder: Path) -> None:
    (folder / "theirs.wgsl").write_text(kernel("add"))
    (folder / "theirs.toml").write_text('op = "softmax"\nworkgroups = ["rows"]\n')
    assert [k.name for k in Library(folder).for_op("softmax")] == ["theirs"]
    assert "theirs" not in [k.name for k in Library(folder).for_op("add")]


def test_a_broken_file_is_named(folder: Path) -> None:
    (folder / "broken.wgsl").write_text("fn main() {")
    with pytest.raises(KernelError, match=r"broken\.wgsl:1: no header"):
        Library(folder).all()
    (folder / "broken.wgsl").write_text('//! op = "other"\nfn main() {')
    assert len(Library(folder).for_op("add")) == 2
    (folder / "broken.wgsl").write_bytes(b"\xff")
    with pytest.raises(KernelError, match=r"broken\.wgsl:1: cannot be read"):
        Library(folder).all()
