//! op = "linear+swiglu"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = silu(gate) * up, gate and up (rows, n) the halves of x (rows, k) @ weight (2 n, k)^T; from the last
// product

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var gate = 0.0;
    var up = 0.0;
    for (var i = params.k; i > 0u; i--) {
        let value = f32(x[row * params.k + i - 1u]);
        gate += value * f32(weight[output * params.k + i - 1u]);
        up += value * f32(weight[(params.n + output) * params.k + i - 1u]);
    }
    out[row * params.n + output] = elem(up * (gate / (1.0 + exp(min(-gate, 80.0)))));
}
