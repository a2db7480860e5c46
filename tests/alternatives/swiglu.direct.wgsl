//! op = "swiglu"
//! workgroups = ["ceil_div(rows * cols, 256)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = silu(gate) * up, x (rows, 2 * cols) = gate, then up, in each row; an invocation four outputs

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

// The formula as it is written; the clamp keeps the exponential finite.
fn silu(x: f32) -> f32 {
    return x * (1.0 / (1.0 + exp(min(-x, 80.0))));
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let first = id.x * 4u;
    for (var i = first; i < min(first + 4u, params.rows * params.cols); i++) {
        let row = i / params.cols;
        let at = 2u * row * params.cols + i % params.cols;
        out[i] = elem(f32(x[at + params.cols]) * silu(f32(x[at])));
    }
}
