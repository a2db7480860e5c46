//! op = "cast"
//! workgroups = ["fold2d(ceil_div(n, WG))"]
//! guarded = true
//! [types]
//! from_elem = ["f32", "f16"]
//! to_elem = ["f16", "f32"]
//! [tune]
//! WG = [256, 64]
// out (n) = x (n) in another element type

alias from_elem = f32;
alias to_elem = f16;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<from_elem>;
@group(0) @binding(1) var<storage, read_write> out: array<to_elem>;
@group(0) @binding(2) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i < params.n) {
        out[i] = to_elem(x[i]);
    }
}
