//! op = "swiglu+linear+add"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = residual (rows, n) + swiglu(x) @ weight (n, k)^T, x (rows, 2 k) = gate, then up; silu by way of tanh,
// the sum begins with the residual

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
    let half = 0.5 * gate;
    return (half + half * tanh(clamp(half, -20.0, 20.0))) * up;
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var sum = f32(residual[row * params.n + output]);
    for (var i = 0u; i < params.k; i++) {
        sum = fma(activation(row, i), f32(weight[output * params.k + i]), sum);
    }
    out[row * params.n + output] = elem(sum);
}
