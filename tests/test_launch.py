"""Where a contract and a kernel meet: bindings, numbers, workgroups, and what matches nothing."""

import struct

import pytest

from pytest_webgpu.gpu.job import Slot
from pytest_webgpu.kernels.source import KernelError, KernelSource, parse_source
from pytest_webgpu.ops.contract import get
from pytest_webgpu.ops.launch import Unfit, launch, prefers, signature

MAIN = "@compute @workgroup_size(64) fn main() { }\n"


def kernel(header: str, *declarations: str, uses: str = "") -> KernelSource:
    toml = "".join(f"//! {line}\n" for line in header.splitlines())
    placed = "".join(f"@group(0) @binding({i}) var<{d};\n" for i, d in enumerate(declarations))
    return parse_source(toml + placed + MAIN.replace("{ }", f"{{ {uses} }}"), "k.wgsl")


def norm(header: str = "", uses: str = "") -> KernelSource:
    return kernel(
        'op = "rms_norm"\nworkgroups = ["rows"]\n' + header,
        "storage> x: array<f32>", "storage> weight: array<f32>", "storage, read_write> out: array<f32>", uses=uses
    )  # fmt: skip


DIMS = {"rows": 3, "cols": 5}


def test_tensors_by_name() -> None:
    made = launch(get("rms_norm"), norm(uses="out[0] = x[0] * f32(arrayLength(&x));"), DIMS, {})
    assert [(a.variable, a.binding, a.role, a.name, a.output, a.access, a.dtype, a.storage, a.shape, a.size, a.exact)
            for a in made.arguments] == [
        ("x", 0, "tensor", "x", False, "read", "f32", "plain", (3, 5), 60, True),
        ("weight", 1, "tensor", "weight", False, "read", "f32", "plain", (5,), 20, False),
        ("out", 2, "tensor", "out", True, "read_write", "f32", "plain", (3, 5), 60, False)]  # fmt: skip
    assert made.slots("main") == (Slot(0, 0, "read-only-storage"), Slot(0, 2, "storage"))
    assert [a.name for a in made.bound("main")] == ["x", "out"]
    assert made.passes[0].workgroups == (3, 1, 1)


def test_numbers_arrive_as_fields_overrides_and_buffers() -> None:
    text = """//! op = "rms_norm"
//! workgroups = ["ceil_div(rows, WG)", "TILE"]
//! [tune]
//! WG = [64, 128]
//! [set]
//! total = "rows * cols"
//! strides = ["cols", 1, 0, 0]
override WG: u32; @id(3) override cols: u32; override WIDE: bool = true; const TILE = 4;
struct A { rows: u32, eps: f32, strides: vec4<u32> } struct B { total: i32, }
@group(0) @binding(0) var<storage> x: array<f32>; @group(0) @binding(1) var<storage> weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(1) @binding(0) var<uniform> a: A; @group(1) @binding(1) var<uniform> b: B;
@group(1) @binding(2) var<uniform> rows: u32; @group(1) @binding(3) var<storage> eps: array<f32>;
@compute @workgroup_size(WG) fn main() { }
"""
    made = launch(get("rms_norm"), parse_source(text), {"rows": 300, "cols": 5}, {"eps": 0.25}, tune={"WG": 128})
    assert made.uniforms == {"a": struct.pack("<If8xIIII", 300, 0.25, 5, 1, 0, 0), "b": struct.pack("<i12x", 1500),
                             "rows": struct.pack("<I12x", 300)}  # fmt: skip
    assert made.scalars == {"eps": struct.pack("<f", 0.25)}
    assert made.passes[0].constants == {"WG": 128.0, "3": 5.0}
    assert made.passes[0].workgroups == (3, 4, 1)
    default = launch(get("rms_norm"), parse_source(text), {"rows": 300, "cols": 5}, {})
    assert default.passes[0].workgroups == (5, 4, 1)
    assert default.scalars == {"eps": struct.pack("<f", 1e-6)}


@pytest.mark.parametrize(("declared", "storage", "dtype", "size"), [
    ("array<f32>", "plain", "f32", 60), ("array<vec4<f32>>", "plain", "f32", 64), ("array<f16>", "plain", "f16", 32),
    ("array<vec4<f16>>", "plain", "f16", 32), ("array<u32>", "f16x2", "f16", 32),
    ("array<vec4<u32>>", "f16x2", "f16", 32),
    ("array<vec2<u32>>", "i8x4", "i8", 16), ("array<u32>", "q4_32", "q4", 20), ("array<f32, 64>", "plain", "f32", 256),
])  # fmt: skip
def test_dtype_storage_and_padding(declared: str, storage: str, dtype: str, size: int) -> None:
    packed = f'[storage]\nx = "{storage}"' if storage != "plain" else ""
    made = kernel('op = "rms_norm"\nworkgroups = ["rows"]\n' + packed, f"storage> x: {declared}",
                  "storage> weight: array<f32>", "storage, read_write> out: array<f32>")  # fmt: skip
    x = launch(get("rms_norm"), made, DIMS, {}).arguments[0]
    assert (x.dtype, x.storage, x.size) == (dtype, storage, size)
    assert signature(get("rms_norm"), made)["x"] == (dtype if storage == "plain" else storage)


def test_optional_in_place_and_renamed() -> None:
    linear = kernel('op = "linear"\nworkgroups = ["rows"]\n[bind]\nB = "weight"', "storage> x: array<f32>",
                    "storage> B: array<f32>", "storage, read_write> out: array<f32>")  # fmt: skip
    assert signature(get("linear"), linear) == {"x": "f32", "weight": "f32", "out": "f32"}
    cache = kernel('op = "kv_cache_write"\nworkgroups = ["tokens"]', "storage, read_write> cache: array<f32>",
                   "storage> x: array<f32>", "storage> start: array<u32>")  # fmt: skip
    made = launch(get("kv_cache_write"), cache, {"heads": 2, "capacity": 8, "head_dim": 4, "tokens": 3}, {"start": 5})
    assert [(a.name, a.role, a.output, a.shape) for a in made.arguments] == [
        ("cache", "tensor", True, (2, 8, 4)),
        ("x", "tensor", False, (3, 2, 4)),
        ("start", "scalar", False, (1,)),
    ]
    assert made.scalars == {"start": struct.pack("<I", 5)}


def test_passes_with_scratch() -> None:
    text = """//! op = "sum"
//! [[pass]]
//! entry = "one"
//! workgroups = ["SPLIT", "rows"]
//! [[pass]]
//! entry = "two"
//! workgroups = ["rows"]
//! [scratch]
//! partial = {dtype = "f32", shape = ["rows", "SPLIT"]}
override SPLIT: u32 = 4;
@group(0) @binding(0) var<storage> x: array<f32>; @group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read_write> partial: array<f32>;
@compute @workgroup_size(1) fn one() { partial[0] = x[0]; }
@compute @workgroup_size(1) fn two() { out[0] = partial[0]; }
"""
    made = launch(get("sum"), parse_source(text), DIMS, {})
    assert [(p.entry, p.workgroups) for p in made.passes] == [("one", (4, 3, 1)), ("two", (3, 1, 1))]
    assert [s.binding for s in made.slots("one")] == [0, 2]
    assert [(a.name, a.role, a.shape, a.size) for a in made.bound("two")][1] == ("partial", "scratch", (3, 4), 48)


def test_many_workgroups() -> None:
    folded = parse_source(norm().text.replace('["rows"]', '["fold2d(rows)"]'))
    dims = {"rows": 65_536, "cols": 1}
    assert launch(get("rms_norm"), folded, dims, {}).passes[0].workgroups == (65_535, 2, 1)
    assert launch(get("rms_norm"), folded, DIMS, {}, spare=True).passes[0].workgroups == (4, 1, 1)
    with pytest.raises(KernelError, match=r'k\.wgsl:2: "rows" is 65536 workgroups.*\n.*fold2d\(rows\)'):
        launch(get("rms_norm"), norm(), dims, {})
    second = parse_source(norm().text.replace('["rows"]', '["cols", "rows"]'))
    with pytest.raises(KernelError, match=r'"rows" is 65536 workgroups') as refused:
        launch(get("rms_norm"), second, dims, {})
    assert "fold2d" not in str(refused.value)  # it stands first
    assert 'requires = ["rows <= 65535"]' in str(refused.value)


def test_spare_workgroups_only_where_dims_decide() -> None:
    made = parse_source(norm().text.replace('["rows"]', '["ceil_div(rows, 2)", "rows", 1]'))
    assert launch(get("rms_norm"), made, DIMS, {}, spare=True).passes[0].workgroups == (3, 4, 1)


def test_requires_and_prefer() -> None:
    needy = norm(header='requires = ["cols % 4 == 0"]\nprefer = ["rows <= 4", "eps < 1"]')
    with pytest.raises(Unfit, match=r'k\.wgsl:3: "cols % 4 == 0" does not hold: cols = 5'):
        launch(get("rms_norm"), needy, DIMS, {})
    assert launch(get("rms_norm"), needy, {"rows": 1, "cols": 8}, {}).passes[0].workgroups == (1, 1, 1)
    assert prefers(get("rms_norm"), needy, DIMS, {})
    assert not prefers(get("rms_norm"), needy, {"rows": 5, "cols": 8}, {})
