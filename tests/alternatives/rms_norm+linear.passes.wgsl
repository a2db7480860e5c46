//! op = "rms_norm+linear"
//! optional = ["bias"]
//! guarded = true
//! [[pass]]
//! entry = "normalise"
//! workgroups = ["ceil_div(rows * k, 64)"]
//! [[pass]]
//! entry = "product"
//! workgroups = ["ceil_div(rows * n, 64)"]
//! [scratch]
//! normal = {dtype = "f32", shape = ["rows", "k"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = (x / sqrt(mean(x^2) + eps) * norm_weight) @ weight^T + bias, x (rows, k), weight (n, k); first the
// norm into a scratch buffer

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> norm_weight: array<elem>;
@group(0) @binding(2) var<storage, read> weight: array<elem>;
@group(0) @binding(3) var<storage, read> bias: array<elem>; //? bias
@group(0) @binding(4) var<storage, read_write> normal: array<f32>;
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
    if (id.x >= params.rows * params.n) {
        return;
    }
    let from_x = id.x / params.n * params.k;
    let from_weight = id.x % params.n * params.k;
    var sum = 0.0;
    for (var i = 0u; i < params.k; i++) {
        sum += normal[from_x + i] * f32(weight[from_weight + i]);
    }
    sum += f32(bias[id.x % params.n]); //? bias
    out[id.x] = elem(sum);
}
