//! op = "softmax"
//! guarded = true
//! [[pass]]
//! entry = "exponentials"
//! workgroups = ["ceil_div(rows, 64)"]
//! [[pass]]
//! entry = "quotients"
//! workgroups = ["ceil_div(rows * cols, 64)"]
//! [scratch]
//! weights = {dtype = "f32", shape = ["rows", "cols"]}
//! sums = {dtype = "f32", shape = ["rows"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = softmax of each row of x (rows, cols): the exponentials by way of a scratch buffer

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> sums: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(64)
fn exponentials(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x;
    if (row >= params.rows) {
        return;
    }
    let first = row * params.cols;
    var highest = -3.4028234663852886e38;
    for (var c = 0u; c < params.cols; c++) {
        highest = max(highest, f32(x[first + c]));
    }
    sums[row] = 0.0;
    for (var c = 0u; c < params.cols; c++) {
        weights[first + c] = exp(f32(x[first + c]) - highest);
        sums[row] += weights[first + c];
    }
}

@compute @workgroup_size(64)
fn quotients(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i < params.rows * params.cols) {
        out[i] = elem(weights[i] / sums[i / params.cols]);
    }
}
