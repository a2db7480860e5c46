"""Reading WGSL declarations as people write them, and a header."""

from pathlib import Path

import pytest

from pytest_webgpu.kernels.source import KernelSource, parse_source, read_source

HEAD = '//! op = "rms_norm"\n//! workgroups = ["rows"]\n'
MAIN = "@compute @workgroup_size(64) fn main() {}\n"
STRANGE = """
enable f16; enable subgroups,;
diagnostic(off, subgroup_uniformity);
requires unrestricted_pointer_parameters;
/* a /* nested */ comment with @group(9) @binding(9) var<storage> no: array<f32>; */
alias elem = f16;
alias Rows = array<vec4<elem>>;
const A : u32 = 0x40u; const B = (A + 2) * 3 - -1;
const_assert A < 100 && B >> 1u > 2;
@id(7) override WG: u32 = 64; override SPLIT = A / 16u; override N: u32;
struct Inner { a: vec3<f32>, b: f32 }
struct Params { @size(16) n: u32, m: vec3u, inner: Inner, strides: array<vec4<u32>, 2>, };
struct Buffer { data: array<f32>, };
@group(0) @binding(1 + 2) var<storage, read_write> out: Rows;
@binding(0) @group(0) var<uniform> params: Params;
@group(1) @binding(0) var<storage> x: Buffer;
@group(0x1) @binding(1) var<storage, read> start: atomic<u32>;
var<workgroup> tile: array<array<elem, B>, 2>;
var<workgroup> sums: array<atomic<u32>, WG>;
var<private> z = 3;
fn helper(p: ptr<function, array<f32, 4>>, q: bool) -> f32 { if (q) { return (*p)[0]; } return x.data[arrayLength(&x.data) - 1]; }
@workgroup_size(WG, SPLIT, 1,) @compute
fn main(@builtin(global_invocation_id) gid: vec3<u32>) { sums[0] = 1; var a: array<f32, 4>; out[gid.x] = vec4<elem>(elem(helper(&a, params.n>=1))); }
@compute @workgroup_size(8) fn second() { tile[0][0] = 1.0h; }
"""  # noqa: E501


@pytest.fixture(scope="module")
def strange() -> KernelSource:
    return parse_source(STRANGE, "theirs.wgsl", {"op": "rms_norm", "workgroups": ["rows"], "entry": "main"})


def test_bindings(strange: KernelSource) -> None:
    found = {b.name: b for b in strange.bindings}
    assert {(n, b.group, b.index, b.space, b.access) for n, b in found.items()} == {
        ("out", 0, 3, "storage", "read_write"), ("params", 0, 0, "uniform", "read"), ("x", 1, 0, "storage", "read"),
        ("start", 1, 1, "storage", "read")}  # fmt: skip
    out = found["out"].type
    assert (out.text, out.scalar, out.components, out.is_array, out.count) == ("array<vec4<f16>>", "f16", 4, True, None)
    assert (found["x"].type.scalar, found["x"].type.is_array, found["x"].uses_array_length) == ("f32", True, True)
    assert (found["start"].type.scalar, found["start"].type.atomic, found["start"].line) == ("u32", True, 17)
    assert not found["out"].uses_array_length


def test_uniform_layout_follows_the_specification(strange: KernelSource) -> None:
    params = strange.struct("Params")
    # @size moves on; vec3 aligns to 16 and leaves its last 4 bytes to a following scalar
    assert [(f.name, f.offset, f.size) for f in params.fields] == [
        ("n", 0, 16), ("m", 16, 12), ("inner", 32, 16), ("strides", 48, 32)]  # fmt: skip
    assert params.size == 80
    assert [(f.offset, f.size) for f in strange.struct("Inner").fields] == [(0, 12), (12, 4)]


def test_overrides_entries_and_features(strange: KernelSource) -> None:
    assert [(o.name, o.id, o.type, o.default, o.key) for o in strange.overrides] == [
        ("WG", 7, "u32", "64", "7"), ("SPLIT", None, "i32", "(A / 16u)", "SPLIT"),
        ("N", None, "u32", None, "N")]  # fmt: skip
    assert [(e.name, e.workgroup_size) for e in strange.entries] == [("main", ("WG", "SPLIT", "1")), ("second", ("8",))]
    assert strange.workgroup_size("main") == (64, 4, 1)
    assert strange.features == {"shader-f16", "subgroups"}
    assert [b.name for b in strange.bound("main")] == ["out", "params", "x"]
    assert strange.bound("second") == ()


def test_workgroup_memory_is_rounded_to_16_a_variable(strange: KernelSource) -> None:
    tile = 2 * 199 * 2  # two rows of (64 + 2) * 3 + 1 halves: 796 bytes
    assert strange.workgroup_memory({}, "second") == tile + 4
    assert strange.workgroup_memory({"WG": 3}, "main") == 16
    assert strange.workgroup_memory({"WG": 256}) == 1024


def test_code_loses_enable_lines_and_keeps_line_numbers(strange: KernelSource) -> None:
    assert "enable" not in strange.code
    assert strange.code.count("\n") == strange.text.count("\n")
    kept = parse_source(HEAD + "enable f16, dual_source_blending;\n" + MAIN).code
    assert "enable dual_source_blending;" in kept


@pytest.mark.parametrize(("body", "feature"), [
    ("let a = subgroupAdd(1.0);", {"subgroups"}), ("let a = 1.0h;", {"shader-f16"}), ("var v: vec4h;", {"shader-f16"}),
    ("let a = subgroup_sum(1.0);", set()), ("// f16 subgroupAdd", set()),
])  # fmt: skip
def test_features_are_read_from_use(body: str, feature: set[str]) -> None:
    assert parse_source(HEAD + f"@compute @workgroup_size(1) fn main() {{ {body}\n }}").features == feature


def test_types_make_variants() -> None:
    kernel = parse_source(HEAD + '//! [types]\n//! elem = ["f32", "f16"]\nalias elem = f32;\n@group(0) @binding(0) '
                          "var<storage> x: array<vec2<elem>>;\n" + MAIN, Path("rms_norm.wgsl"))  # fmt: skip
    first, second = kernel.variants()
    assert (first.name, second.name) == ("rms_norm[f32]", "rms_norm[f16]")
    assert (first.bindings[0].type.scalar, second.bindings[0].type.scalar) == ("f32", "f16")
    assert (first.features, second.features) == (frozenset(), {"shader-f16"})
    assert first.sha != second.sha
    assert first.variants() == [first]


def test_side_file_and_options_win_over_the_text(tmp_path: Path) -> None:
    kernel = tmp_path / "theirs.wgsl"
    kernel.write_text("//! Prose about the kernel, not TOML\n" + MAIN)
    (tmp_path / "theirs.toml").write_text('op = "softmax"\nworkgroups = ["rows"]\n[bind]\nA = "x"\n')
    with pytest.raises(Exception, match=r'theirs\.toml:4: \[bind\] names "A", but there is no such variable'):
        read_source(kernel)
    kernel.write_text(kernel.read_text() + "@group(0) @binding(0) var<storage> A: array<f32>;")
    assert read_source(kernel).header.bind == {"A": "x"}
    given = read_source(kernel, {"op": "sum", "workgroups": ["rows * 2"]})
    assert (given.header.op, given.header.workgroups[0].text, given.header.bind) == ("sum", "rows * 2", {"A": "x"})
    assert read_source(kernel).sha != given.sha


def test_header_keys() -> None:
    header = parse_source("""// licence

//! op = "argmax"
//! requires = ["cols % 4 == 0"]
//! guarded = true
//! deterministic = false
//! [[pass]]
//! entry = "first"
//! workgroups = ["ceil_div(cols, WG)", "rows"]
//! [[pass]]
//! entry = "second"
//! workgroups = ["rows"]
//! [scratch]
//! partial = {dtype = "f32", shape = ["rows", "SPLIT"]}
//! [storage]
//! weight = "f16x2"
//! [tune]
//! WG = [64, 128]
//! [set]
//! total = "rows * cols"
//! strides = ["cols", 1]
override WG: u32;
@compute @workgroup_size(WG) fn first() {}
@compute @workgroup_size(1) fn second() {}
""").header
    assert [(p.entry, [e.text for e in p.workgroups], p.line) for p in header.passes] == [
        ("first", ["ceil_div(cols, WG)", "rows"], 7), ("second", ["rows"], 10)]  # fmt: skip
    assert [e.text for e in header.scratch["partial"].shape] == ["rows", "SPLIT"]
    assert (header.storage, header.tune) == ({"weight": "f16x2"}, {"WG": (64, 128)})
    assert [e.text for e in header.set["total"]] == ["rows * cols"]
    assert [e.text for e in header.set["strides"]] == ["cols", "1"]
    assert (header.guarded, header.deterministic, header.line("tune.WG")) == (True, False, 18)
