//! op = "rms_norm"
//! workgroups = ["rows"]
//! requires = ["cols % 4 == 0", "rows <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = x / sqrt(mean(x^2) + eps) * weight, x (rows, cols), weight (cols); a workgroup a row, four
// elements a lane at a time, the lanes' sums added by each lane

alias elem = f32;

struct Params { rows: u32, cols: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<elem>>;
@group(0) @binding(3) var<uniform> params: Params;

const WG = 32u;

var<workgroup> partial: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x;
    // A workgroup beyond the last row reads nothing and writes nothing.
    let cols = select(0u, params.cols / 4u, row < params.rows);
    let first = row * (params.cols / 4u);
    var squares = vec4<f32>();
    for (var c = lane; c < cols; c += WG) {
        let value = vec4<f32>(x[first + c]);
        squares += value * value;
    }
    partial[lane] = dot(squares, vec4<f32>(1.0));
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < WG; i++) {
        sum += partial[i];
    }
    let scale = inverseSqrt(sum / f32(params.cols) + params.eps);
    for (var c = lane; c < cols; c += WG) {
        out[first + c] = vec4<elem>(vec4<f32>(x[first + c]) * scale * vec4<f32>(weight[c]));
    }
}
