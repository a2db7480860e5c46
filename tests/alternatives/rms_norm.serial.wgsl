//! op = "rms_norm"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = x / sqrt(mean(x^2) + eps) * weight, x (rows, cols), weight (cols); an invocation a row, which
// divides by the root

alias elem = f32;

struct Params { rows: u32, cols: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x;
    if (row >= params.rows) {
        return;
    }
    let first = row * params.cols;
    var squares = 0.0;
    for (var c = 0u; c < params.cols; c++) {
        squares += f32(x[first + c]) * f32(x[first + c]);
    }
    let root = sqrt(squares / f32(params.cols) + params.eps);
    for (var c = 0u; c < params.cols; c++) {
        out[first + c] = elem(f32(x[first + c]) / root * f32(weight[c]));
    }
}
