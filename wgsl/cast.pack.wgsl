//! op = "cast"
//! workgroups = ["fold2d(ceil_div(n, 2 * WG))"]
//! guarded = true
//! [storage]
//! out = "f16x2"
//! [tune]
//! WG = [256, 64]
// out (n, two halves a word) = x (n, f32): f16 without the feature shader-f16

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let word = id.y * groups.x * WG + id.x;
    let i = 2u * word;
    if (i < params.n) {
        // Where n is odd the last word's upper half is padding.
        let second = select(0.0, x[min(i + 1u, params.n - 1u)], i + 1u < params.n);
        out[word] = pack2x16float(vec2<f32>(x[i], second));
    }
}
