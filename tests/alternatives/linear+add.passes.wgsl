//! op = "linear+add"
//! optional = ["bias"]
//! guarded = true
//! [[pass]]
//! entry = "product"
//! workgroups = ["ceil_div(rows * n, 64)"]
//! [[pass]]
//! entry = "add"
//! workgroups = ["ceil_div(rows * n, 64)"]
//! [scratch]
//! products = {dtype = "f32", shape = ["rows", "n"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = residual (rows, n) + x (rows, k) @ weight (n, k)^T + bias (n): first the product into a scratch
// buffer

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read> residual: array<elem>;
@group(0) @binding(3) var<storage, read> bias: array<elem>; //? bias
@group(0) @binding(4) var<storage, read_write> products: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;
@group(0) @binding(6) var<uniform> params: Params;

@compute @workgroup_size(64)
fn product(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.rows * params.n) {
        return;
    }
    let from_x = id.x / params.n * params.k;
    let from_weight = id.x % params.n * params.k;
    var sum = 0.0;
    for (var i = 0u; i < params.k; i++) {
        sum += f32(x[from_x + i]) * f32(weight[from_weight + i]);
    }
    sum += f32(bias[id.x % params.n]); //? bias
    products[id.x] = sum;
}

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.rows * params.n) {
        out[id.x] = elem(products[id.x] + f32(residual[id.x]));
    }
}
