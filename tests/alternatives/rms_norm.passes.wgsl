//! op = "rms_norm"
//! guarded = true
//! [[pass]]
//! entry = "scale_of_row"
//! workgroups = ["ceil_div(rows, 64)"]
//! [[pass]]
//! entry = "scaled"
//! workgroups = ["ceil_div(rows * cols, 64)"]
//! [scratch]
//! scales = {dtype = "f32", shape = ["rows"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = x / sqrt(mean(x^2) + eps) * weight, x (rows, cols), weight (cols); the rows' scales first, by way
// of a scratch buffer

alias elem = f32;

struct Params { rows: u32, cols: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> scales: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(64)
fn scale_of_row(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x;
    if (row >= params.rows) {
        return;
    }
    let first = row * params.cols;
    var squares = 0.0;
    for (var c = params.cols; c > 0u; c--) {
        let value = f32(x[first + c - 1u]);
        squares += value * value;
    }
    scales[row] = inverseSqrt(squares / f32(params.cols) + params.eps);
}

@compute @workgroup_size(64)
fn scaled(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i < params.rows * params.cols) {
        out[i] = elem(f32(weight[i % params.cols]) * (scales[i / params.cols] * f32(x[i])));
    }
}
