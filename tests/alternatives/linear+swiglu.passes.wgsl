//! op = "linear+swiglu"
//! guarded = true
//! [[pass]]
//! entry = "product"
//! workgroups = ["ceil_div(2 * rows * n, 64)"]
//! [[pass]]
//! entry = "activate"
//! workgroups = ["ceil_div(rows * n, 64)"]
//! [scratch]
//! products = {dtype = "f32", shape = ["rows", "2 * n"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = silu(gate) * up, gate and up (rows, n) the halves of x (rows, k) @ weight (2 n, k)^T; first the
// products into a scratch buffer

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> products: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(64)
fn product(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.rows * (2u * params.n)) {
        return;
    }
    let from_x = id.x / (2u * params.n) * params.k;
    let from_weight = id.x % (2u * params.n) * params.k;
    var sum = 0.0;
    for (var i = 0u; i < params.k; i++) {
        sum += f32(x[from_x + i]) * f32(weight[from_weight + i]);
    }
    products[id.x] = sum;
}

@compute @workgroup_size(64)
fn activate(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.rows * params.n) {
        let gate = products[id.x / params.n * 2u * params.n + id.x % params.n];
        let up = products[(id.x / params.n * 2u + 1u) * params.n + id.x % params.n];
        let e = exp(-abs(gate));
        out[id.x] = elem(gate * select(e, 1.0, gate >= 0.0) / (1.0 + e) * up);
    }
}
