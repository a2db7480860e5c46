//! op = "linear+add"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! optional = ["bias"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = residual (rows, n) + x (rows, k) @ weight (n, k)^T + bias (n); the sum begins with the residual, and
// the bias

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read> residual: array<elem>;
@group(0) @binding(3) var<storage, read> bias: array<elem>; //? bias
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var sum = f32(residual[row * params.n + output]);
    sum += f32(bias[output]); //? bias
    for (var i = 0u; i < params.k; i++) {
        sum = fma(f32(x[row * params.k + i]), f32(weight[output * params.k + i]), sum);
    }
    out[row * params.n + output] = elem(sum);
}
