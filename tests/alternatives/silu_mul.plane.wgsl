//! op = "silu_mul"
//! workgroups = ["ceil_div(n, 64 * 8)", "8"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (n) = silu(gate) * up, gate, up (n); workgroups of two dimensions in two dimensions

alias elem = f32;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> gate: array<elem>;
@group(0) @binding(1) var<storage, read> up: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

// The formula as it is written; the clamp keeps the exponential finite.
fn silu(x: f32) -> f32 {
    return x * (1.0 / (1.0 + exp(min(-x, 80.0))));
}

@compute @workgroup_size(8, 8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let i = (group.x * 8u + group.y) * 64u + local.x * 8u + local.y;
    if (group.y < 8u && i < params.n) {
        out[i] = elem(f32(up[i]) * silu(f32(gate[i])));
    }
}
