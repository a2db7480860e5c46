//! op = "swiglu"
//! workgroups = ["min(rows, 300)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = silu(gate) * up, x (rows, 2 * cols) = gate, then up, in each row; a row a workgroup

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

// Of two branches the one whose exponential cannot overflow.
fn silu(x: f32) -> f32 {
    if (x < 0.0) {
        let e = exp(x);
        return x * (e / (1.0 + e));
    }
    return x / (1.0 + exp(-x));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    for (var row = group.x; row < params.rows; row += groups.x) {
        for (var c = lane; c < params.cols; c += 64u) {
            let at = 2u * row * params.cols + c;
            out[row * params.cols + c] = elem(silu(f32(x[at])) * f32(x[at + params.cols]));
        }
    }
}
