//! op = "swiglu+linear+add"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = residual (rows, n) + swiglu(x) @ weight (n, k)^T, x (rows, 2 k) = gate, then up; from the last
// product

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read> residual: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<uniform> params: Params;

// An activation of a row.
fn activation(row: u32, i: u32) -> f32 {
    let gate = f32(x[2u * row * params.k + i]);
    let up = f32(x[(2u * row + 1u) * params.k + i]);
    return up * (gate / (1.0 + exp(min(-gate, 80.0))));
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var sum = 0.0;
    for (var i = params.k; i > 0u; i--) {
        sum += activation(row, i - 1u) * f32(weight[output * params.k + i - 1u]);
    }
    out[row * params.n + output] = elem(sum + f32(residual[row * params.n + output]));
}
