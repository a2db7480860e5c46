//! op = "cast"
//! workgroups = ["fold2d(ceil_div(n, WG))"]
//! guarded = true
//! [storage]
//! x = "f16x2"
//! [tune]
//! WG = [256, 64]
// out (n, f32) = x (n, two halves a word): f16 without the feature shader-f16

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i < params.n) {
        out[i] = unpack2x16float(x[i / 2u])[i % 2u];
    }
}
