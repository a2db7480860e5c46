//! op = "swiglu+linear+add"
//! guarded = true
//! [[pass]]
//! entry = "activate"
//! workgroups = ["ceil_div(rows * k, 64)"]
//! [[pass]]
//! entry = "product"
//! workgroups = ["ceil_div(rows * n, 64)"]
//! [scratch]
//! activated = {dtype = "f32", shape = ["rows", "k"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = residual (rows, n) + swiglu(x) @ weight (n, k)^T, x (rows, 2 k) = gate, then up; first the
// activations into a scratch buffer

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read> residual: array<elem>;
@group(0) @binding(3) var<storage, read_write> activated: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

// An activation of a row.
fn activation(row: u32, i: u32) -> f32 {
    let gate = f32(x[2u * row * params.k + i]);
    let up = f32(x[(2u * row + 1u) * params.k + i]);
    let e = exp(-abs(gate));
    return gate * select(e, 1.0, gate >= 0.0) / (1.0 + e) * up;
}

@compute @workgroup_size(64)
fn activate(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.rows * params.k) {
        activated[id.x] = activation(id.x / params.k, id.x % params.k);
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
        sum += activated[from_x + i] * f32(weight[from_weight + i]);
    }
    out[id.x] = elem(f32(residual[id.x]) + sum);
}
