"""Arguments that a contract may leave out: one file, a variant with and one without."""

import pytest

from pytest_webgpu.kernels.source import KernelError, KernelSource, parse_source

TEXT = """//! op = "linear"
//! workgroups = ["n"]
//! optional = ["bias"]
@group(0) @binding(0) var<storage> bias: array<f32>; //? bias
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3u) {
    var value = 1.0;
    value += bias[id.x]; //? bias
    out[id.x] = value;
}
"""


def variants(text: str = TEXT) -> list[KernelSource]:
    return parse_source(text, "linear.wgsl").variants()


def test_a_variant_with_and_one_without() -> None:
    given, left_out = variants()
    assert (given.name, left_out.name) == ("linear[bias]", "linear")
    assert [b.name for b in given.bindings] == ["bias", "out"]
    assert [b.name for b in left_out.bindings] == ["out"]
    assert "bias[" not in left_out.code
    assert left_out.variants() == [left_out]


def test_lines_stay_where_they_were() -> None:
    _, left_out = variants()
    line = "    out[id.x] = value;"
    assert left_out.text.splitlines().index(line) == TEXT.splitlines().index(line)


def test_types_and_optional_arguments_combine() -> None:
    text = TEXT.replace('["bias"]\n', '["bias"]\n//! [types]\n//! elem = ["f32", "f16"]\nalias elem = f32;\n')
    assert [k.name for k in variants(text)] == ["linear[f32,bias]", "linear[f32]", "linear[f16,bias]", "linear[f16]"]


def test_an_argument_without_lines_of_its_own() -> None:
    with pytest.raises(KernelError, match="no line is marked as scale's") as error:
        variants(TEXT.replace('["bias"]', '["scale"]'))
    assert "linear.wgsl:3" in str(error.value)
