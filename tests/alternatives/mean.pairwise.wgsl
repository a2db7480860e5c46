//! op = "mean"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows) = the mean of each row of x (rows, cols); an invocation a row, by halves: level i holds the sum of 2^i
// elements while that has no partner

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
    var levels = array<f32, 32>();
    for (var c = 0u; c < params.cols; c++) {
        var sum = f32(x[first + c]);
        var level = 0u;
        for (var left = c; left % 2u == 1u; left /= 2u) {
            sum = levels[level] + sum;
            level++;
        }
        levels[level] = sum;
    }
    var sum = 0.0;
    for (var level = 0u; level < 32u; level++) {
        if ((params.cols >> level) % 2u == 1u) {
            sum += levels[level];
        }
    }
    out[row] = elem(sum / f32(params.cols));
}
