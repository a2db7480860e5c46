//! op = "softmax"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = softmax of each row of x (rows, cols); an invocation a row, maximum and sum in one pass (Milakov
// and Gimelshein 2018)

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x;
    if (row >= params.rows) {
        return;
    }
    let first = row * params.cols;
    var highest = -3.4028234663852886e38;
    var sum = 0.0;
    for (var c = 0u; c < params.cols; c++) {
        let value = f32(x[first + c]);
        let higher = max(highest, value);
        sum = sum * exp(highest - higher) + exp(value - higher);
        highest = higher;
    }
    for (var c = 0u; c < params.cols; c++) {
        out[first + c] = elem(exp(f32(x[first + c]) - highest) / sum);
    }
}
