//! op = "softmax"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = 2^((x - max(x)) log2(e)) over their sum, x (rows, cols); an invocation a row, from its end

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
    for (var c = params.cols; c > 0u; c--) {
        highest = max(highest, f32(x[first + c - 1u]));
    }
    var sum = 0.0;
    for (var c = params.cols; c > 0u; c--) {
        sum += exp2((f32(x[first + c - 1u]) - highest) * 1.4426950408889634);
    }
    for (var c = 0u; c < params.cols; c++) {
        out[first + c] = elem(exp2((f32(x[first + c]) - highest) * 1.4426950408889634) / sum);
    }
}
