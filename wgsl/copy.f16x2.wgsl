//! op = "copy"
//! workgroups = ["fold2d(ceil_div(d0 * d1 * d2 * d3, WG))"]
//! guarded = true
//! [storage]
//! x = "f16x2"
//! [tune]
//! WG = [256, 64]
// As copy.wgsl, from x (size) of two halves a word.

struct Params { d0: u32, d1: u32, d2: u32, d3: u32, offset: u32, s0: u32, s1: u32, s2: u32, s3: u32 }

@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i < params.d0 * params.d1 * params.d2 * params.d3) {
        let i3 = i % params.d3;
        let i2 = i / params.d3 % params.d2;
        let i1 = i / (params.d3 * params.d2) % params.d1;
        let i0 = i / (params.d3 * params.d2 * params.d1);
        let element = params.offset + i0 * params.s0 + i1 * params.s1 + i2 * params.s2 + i3 * params.s3;
        out[i] = unpack2x16float(x[element / 2u])[element % 2u];
    }
}
