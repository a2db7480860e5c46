//! op = "max"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows) = the largest element of each row of x (rows, cols); an invocation a row

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
    var highest = x[first];
    for (var c = 1u; c < params.cols; c++) {
        if (x[first + c] > highest) {
            highest = x[first + c];
        }
    }
    out[row] = highest;
}
