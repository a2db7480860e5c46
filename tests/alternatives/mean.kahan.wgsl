//! op = "mean"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows) = the mean of each row of x (rows, cols); an invocation a row, what was rounded off is kept (Kahan 1965)

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
    var sum = 0.0;
    var lost = 0.0;
    for (var c = 0u; c < params.cols; c++) {
        let term = f32(x[first + c]) - lost;
        let next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    out[row] = elem(sum / f32(params.cols));
}
