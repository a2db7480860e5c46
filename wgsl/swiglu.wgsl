//! op = "swiglu"
//! workgroups = ["fold2d(ceil_div(rows * cols, WG))"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [256, 64]
// out (rows, cols) = silu(gate) * up, where x (rows, 2 * cols) holds gate, then up, in each row

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

override WG: u32 = 256;

// Half of the formula by the sign of x, so that exp never overflows.
fn silu(x: f32) -> f32 {
    let e = exp(-abs(x));
    return x * select(e, 1.0, x >= 0.0) / (1.0 + e);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i < params.rows * params.cols) {
        let gate = i + i / params.cols * params.cols;
        out[i] = elem(silu(f32(x[gate])) * f32(x[gate + params.cols]));
    }
}
