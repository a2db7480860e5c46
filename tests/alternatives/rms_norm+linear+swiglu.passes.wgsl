//! op = "rms_norm+linear+swiglu"
//! guarded = true
//! [[pass]]
//! entry = "normalise"
//! workgroups = ["ceil_div(rows * k, 64)"]
//! [[pass]]
//! entry = "product"
//! workgroups = ["ceil_div(2 * rows * n, 64)"]
//! [[pass]]
//! entry = "activate"
//! workgroups = ["ceil_div(rows * n, 64)"]
//! [scratch]
//! normal = {dtype = "f32", shape = ["rows", "k"]}
//! products = {dtype = "f32", shape = ["rows", "2 * n"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = silu(gate) * up, gate and up (rows, n) the halves of rms_norm(x, norm_weight) @ weight (2 n, k)^T, x
// (rows, k); the norm, the products, the activation by way of scratch buffers

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> norm_weight: array<elem>;
@group(0) @binding(2) var<storage, read> weight: array<elem>;
@group(0) @binding(3) var<storage, read_write> normal: array<f32>;
@group(0) @binding(4) var<storage, read_write> products: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;
@group(0) @binding(6) var<uniform> params: Params;

// What a row's norm multiplies its elements with.
fn scale_of(row: u32) -> f32 {
    var squares = 0.0;
    for (var i = 0u; i < params.k; i++) {
        let value = f32(x[row * params.k + i]);
        squares += value * value;
    }
    return 1.0 / sqrt(squares / f32(params.k) + params.eps);
}

@compute @workgroup_size(64)
fn normalise(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x / params.k;
    if (row < params.rows) {
        normal[id.x] = f32(x[id.x]) * scale_of(row) * f32(norm_weight[id.x % params.k]);
    }
}

@compute @workgroup_size(64)
fn product(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.rows * (2u * params.n)) {
        return;
    }
    let from_x = id.x / (2u * params.n) * params.k;
    let from_weight = id.x % (2u * params.n) * params.k;
    var sum = 0.0;
    for (var i = 0u; i < params.k; i++) {
        sum += normal[from_x + i] * f32(weight[from_weight + i]);
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
