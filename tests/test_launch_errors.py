"""What a kernel asks for and the contract does not offer is named, with what there is."""

from pathlib import Path

import pytest

from pytest_webgpu.kernels.source import KernelError, parse_source
from pytest_webgpu.ops.contract import get
from pytest_webgpu.ops.launch import launch
from tests.faulty_kernels import ADD

X = "@group(0) @binding(0) var<storage> x: array<f32>;"
WEIGHT = "@group(0) @binding(1) var<storage> weight: array<f32>;"
OUT = "@group(0) @binding(2) var<storage, read_write> out: array<f32>;"
N = "@group(0) @binding(3) var<uniform> n: u32;"
ALL = f"{X}\n{WEIGHT}\n{OUT}\n"
OFFER = "rms_norm offers tensors x, weight, out; numbers rows, cols, eps"


@pytest.mark.parametrize(("header", "text", "line", "message", "remedy"), [
    ("", f"{X}\n{OUT}", 5, "rms_norm needs a binding `weight` that the kernel lacks", '[bind] VARIABLE = "weight"'),
    ("", ALL + "@group(0) @binding(3) var<storage> wieght: array<f32>;", 6, "`wieght` is no argument of rms_norm",
     'did you mean "weight"? ' + OFFER),
    ("", ALL + "struct P { rows: u32, col: u32 } @group(0) @binding(3) var<uniform> p: P;", 6,
     "`p.col` matches no dim or scalar", 'did you mean "cols"? ' + OFFER),
    ("", ALL + "override COLS: u32;", 6, "override `COLS` has no default and rms_norm no such number", OFFER),
    ("", f"{X}\n{WEIGHT}\n" + OUT.replace("read_write", "read"), 5, "`out` is the output out: Float[rows",
     "read_write"),
    ("", ALL.replace("x: array<f32>", "x: array<u32>"), 3, "`x` is array<u32> where rms_norm has x: Float[rows cols]",
     '[storage] x = "f16x2"'),
    ("", ALL.replace("x: array<f32>", "x: array<vec3<f32>>"), 3, "every fourth number unused", "array<f32>"),
    ('[storage]\nx = "f16x2"', ALL, 5, "`x` is stored as f16x2 but declared array<f32>", "array<vec4<u32>>"),
    ('[bind]\nx = "y"', ALL, 4, '[bind] names "y"', OFFER),
    ('[storage]\ny = "f16x2"', ALL, 4, '[storage] names "y"', OFFER),
    ('[set]\nn = "row"', ALL + N, 4, '"row" in "row" is no dim',
     'did you mean "rows"? the names here are: cols, eps, rows'),
    ('[set]\nn = [1, 2]', ALL + N, 8, "`n` holds 1 numbers and gets 2", "[...]"),
    ('[set]\nn = "eps"', ALL + N, 8, "`n` is u32, but 1e-06 is not a whole",
     "another type"),
    ('[set]\nn = "0 - 1"', ALL + N, 8, "`n` is u32, but -1 does not fit", "type"),
    ('[scratch]\np = {dtype = "f32", shape = ["row"]}', ALL + "@group(0) @binding(3) var<storage> p: array<f32>;", 4,
     '"row" in "row" is no dim', "cols, eps, rows"),
    *(('[scratch]\np = {dtype = "f32", shape = ["' + shape + '"]}',
       ALL + "@group(0) @binding(3) var<storage> p: array<f32>;", 4, message, remedy) for shape, message, remedy in [
        ("rows * 1048576 * 1048576", "p is 8796093022208 bytes, more than the 134217728", "requires = [...]"),
        ("0 - 1", '"0 - 1" in the shape of scratch.p is -1', "at least 1"),
        ("0", '"0" in the shape of scratch.p is 0', "at least 1"),
        ("rows / 4", '"rows / 4" is 0.5, not a whole number', "ceil_div"),
    ]),
])  # fmt: skip
def test_named_with_line_and_remedy(header: str, text: str, line: int, message: str, remedy: str) -> None:
    toml = "".join(f"//! {part}\n" for part in ('op = "rms_norm"', 'workgroups = ["rows"]', *header.splitlines()))
    kernel = parse_source(toml + text + "\n@compute @workgroup_size(1) fn main() {}", "k.wgsl")
    with pytest.raises(KernelError) as caught:
        launch(get("rms_norm"), kernel, {"rows": 2, "cols": 3}, {})
    assert (caught.value.path, caught.value.line) == ("k.wgsl", line)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_unknown_name_in_workgroups() -> None:
    text = f'//! op = "rms_norm"\n//! workgroups = ["row"]\n{ALL}@compute @workgroup_size(1) fn main() {{}}'
    with pytest.raises(KernelError, match=r'k\.wgsl:2: "row" in "row" is no dim.*\n  did you mean "rows"\?'):
        launch(get("rms_norm"), parse_source(text, "k.wgsl"), {"rows": 2, "cols": 3}, {})


def test_a_fixed_array_that_is_too_short_is_told_with_its_line():
    """wgpu-native clamps the index and goes on, so that no run shows it."""
    text = ADD.replace("a: array<f32>", "a: array<f32, 64>")
    kernel = parse_source(text, Path("mine.wgsl"))
    assert launch(get("add"), kernel, {"n": 64}, {})
    with pytest.raises(KernelError, match=r"wgsl:\d+: `a` holds 64 elements, too few for 65 of them\n.*array<f32>"):
        launch(get("add"), kernel, {"n": 65}, {})
