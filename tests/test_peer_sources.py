"""Kernels as other projects write them, untouched: their side header says what their names mean."""

import struct

from pytest_webgpu.kernels.lints import lint
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get
from pytest_webgpu.ops.launch import launch

GENERATED = """fn nan() -> f32 { let bits = 0xffffffffu; return bitcast<f32>(bits); }
fn is_nan(v:f32) -> bool { return min(v, 1.0) == 1.0 && max(v, -1.0) == -1.0; }
@group(0) @binding(0)var<uniform> INFINITY : f32;
@group(0) @binding(1)var<storage,read_write>data0_60:array<f32>;@group(0) @binding(2)var<storage,read_write>data1_60:array<f32>;
@group(0) @binding(3)var<storage,read_write>data2_60:array<f32>;
@compute @workgroup_size(3) fn E_20_3(@builtin(workgroup_id) gindex: vec3<u32>,@builtin(local_invocation_id) lindex: vec3<u32>) {
  var gidx0 = i32(gindex.x); var alu0 = (i32(lindex.x)+bitcast<i32>((bitcast<u32>(gidx0)*3u)));
  var val0 = data1_60[alu0]; var val1 = data2_60[alu0];
  data0_60[alu0] = (val0+val1);
}"""  # noqa: E501

SESSION = """enable f16;
const workgroup_size_x: u32 = 64; const workgroup_size_y: u32 = 1; const workgroup_size_z: u32 = 1;
@group(0) @binding(0) var<storage, read> x: array<x_value_t>;
@group(0) @binding(1) var<storage, read> skip: array<x_value_t>;
@group(0) @binding(2) var<storage, read_write> output: array<output_value_t>;
struct Uniforms {
  vec_size: u32,
  shape: array<vec4<u32>, 1>,
  strides: vec2<u32>
};
@group(0) @binding(3) var<uniform> uniforms: Uniforms;
alias x_value_t = vec4<f16>;
alias x_element_t = f16;
alias output_value_t = x_value_t;
fn o2i(offset : u32) -> vec2<u32> { return vec2<u32>(offset / uniforms.strides[0], offset % uniforms.shape[0][0]); }
@compute @workgroup_size(workgroup_size_x, workgroup_size_y, workgroup_size_z)
fn main(@builtin(global_invocation_id) global_id : vec3<u32>,
        @builtin(workgroup_id) workgroup_id : vec3<u32>,
        @builtin(local_invocation_index) local_idx : u32,
        @builtin(num_workgroups) num_workgroups : vec3<u32>) {
  let global_idx = (workgroup_id.z * num_workgroups[0] * num_workgroups[1] + workgroup_id.y * num_workgroups[0]
    + workgroup_id.x) * (workgroup_size_x * workgroup_size_y * workgroup_size_z) + local_idx;
  if (global_idx >= uniforms.vec_size) { return; }
  output[global_idx] = output_value_t(x[global_idx] + skip[global_idx]);
}
"""

STRIDED = """struct Params {
    offset_src: u32, // in elements
    stride_src1: u32,
    ne0: u32,
    ne1: u32,
    eps: f32
};
@group(0) @binding(0)
var<storage, read_write> src: array<f32>;
@group(0) @binding(1)
var<storage, read_write> gain: array<f32>;
@group(0) @binding(2)
var<storage, read_write> dst: array<f32>;
@group(0) @binding(3)
var<uniform> params: Params;
override wg_size: u32;
var<workgroup> scratch: array<f32, wg_size>;
@compute @workgroup_size(wg_size)
fn main(@builtin(workgroup_id) wid: vec3<u32>,
        @builtin(local_invocation_id) lid: vec3<u32>) {
    let elems = (params.ne0 + wg_size - 1) / wg_size;
    var sum = 0.0f;
    var col = lid.x;
    for (var j: u32 = 0; j < elems; j++) {
        if (col >= params.ne0) {
            break;
        }
        sum += pow(src[params.offset_src + wid.x * params.stride_src1 + col], 2.0);
        col += wg_size;
    }
    scratch[lid.x] = sum;
    workgroupBarrier();
    var offset = wg_size / 2;
    while (offset > 0) {
        if (lid.x < offset) {
            scratch[lid.x] += scratch[lid.x + offset];
        }
        offset = offset / 2;
        workgroupBarrier();
    }
    dst[wid.x] = gain[0] / sqrt(scratch[0] / f32(params.ne0) + params.eps);
}
"""


def test_a_program_that_generates_its_names_and_binds_infinity() -> None:
    header = {"op": "add", "workgroups": ["ceil_div(n, 3)"], "set": {"INFINITY": float("inf")},
              "bind": {"data0_60": "out", "data1_60": "a", "data2_60": "b"}}  # fmt: skip
    made = launch(get("add"), parse_source(GENERATED, None, header), {"n": 60}, {})
    assert made.uniforms == {"INFINITY": struct.pack("<f12x", float("inf"))}
    assert [(a.name, a.output, a.access, a.size) for a in made.arguments if a.role == "tensor"] == [
        ("out", True, "read_write", 240), ("a", False, "read_write", 240), ("b", False, "read_write", 240)]  # fmt: skip
    assert made.passes[0].workgroups == (20, 1, 1)
    assert [s.binding for s in made.slots("E_20_3")] == [1, 2, 3]  # INFINITY is declared and never used
    assert [f.rule for f in lint(made.kernel)] == ["unused-binding"]


def test_an_inference_session_with_shapes_in_vectors() -> None:
    header = {"op": "add", "workgroups": ["ceil_div(ceil_div(n, 4), workgroup_size_x)"],
              "bind": {"x": "a", "skip": "b", "output": "out"},
              "set": {"vec_size": "ceil_div(n, 4)", "shape": ["n", 1, 1, 1], "strides": ["n", 1]}}  # fmt: skip
    made = launch(get("add"), parse_source(SESSION, None, header), {"n": 1030}, {})
    assert made.kernel.features == {"shader-f16"}
    assert made.uniforms == {"uniforms": struct.pack("<I12xIIIIII8x", 258, 1030, 1, 1, 1, 1030, 1)}
    assert {a.size for a in made.arguments if a.role == "tensor"} == {258 * 8}
    assert made.passes[0].workgroups == (5, 1, 1)
    assert lint(made.kernel) == ()


def test_a_library_of_strided_tensors() -> None:
    header = {"op": "rms_norm", "workgroups": ["rows"], "tune": {"wg_size": [64, 128]}, "guarded": False,
              "bind": {"src": "x", "gain": "weight", "dst": "out"},
              "set": {"offset_src": 0, "stride_src1": "cols", "ne0": "cols", "ne1": "rows"}}  # fmt: skip
    made = launch(get("rms_norm"), parse_source(STRIDED, None, header), {"rows": 3, "cols": 5}, {"eps": 0.5})
    assert made.uniforms == {"params": struct.pack("<IIIIf12x", 0, 5, 5, 3, 0.5)}
    assert made.passes[0].constants == {"wg_size": 64.0}
    assert made.workgroup_memory == 256
    assert [(f.rule, f.line) for f in lint(made.kernel)] == [("pow-negative", 28)]
