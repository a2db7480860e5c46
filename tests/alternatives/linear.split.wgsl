//! op = "linear"
//! requires = ["rows <= 65535"]
//! optional = ["bias"]
//! guarded = true
//! [[pass]]
//! entry = "shares"
//! workgroups = ["ceil_div(n, 16)", "rows"]
//! [[pass]]
//! entry = "total"
//! workgroups = ["ceil_div(n * rows, 64)"]
//! [scratch]
//! partial = {dtype = "f32", shape = ["SPLIT", "rows", "n"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = x (rows, k) @ weight (n, k)^T + bias (n): k in SPLIT shares, a lane each, by way of a scratch buffer

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read> bias: array<elem>; //? bias
@group(0) @binding(3) var<storage, read_write> partial: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

const SPLIT = 4u;

@compute @workgroup_size(16, 1, SPLIT)
fn shares(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    if (id.x >= params.n || id.y >= params.rows) {
        return;
    }
    let width = (params.k + SPLIT - 1u) / SPLIT;
    var sum = 0.0;
    for (var i = local.z * width; i < min((local.z + 1u) * width, params.k); i++) {
        sum += f32(x[id.y * params.k + i]) * f32(weight[id.x * params.k + i]);
    }
    partial[(local.z * params.rows + id.y) * params.n + id.x] = sum;
}

@compute @workgroup_size(64)
fn total(@builtin(global_invocation_id) id: vec3<u32>) {
    let size = params.rows * params.n;
    if (id.x < size) {
        var sum = 0.0;
        for (var share = 0u; share < SPLIT; share++) {
            sum += partial[share * size + id.x];
        }
        sum += f32(bias[id.x % params.n]); //? bias
        out[id.x] = elem(sum);
    }
}
