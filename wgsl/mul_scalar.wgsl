//! op = "mul_scalar"
//! workgroups = ["fold2d(ceil_div(n, WG))"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [256, 64]
// out (n) = x (n) * value

alias elem = f32;

struct Params { n: u32, value: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i < params.n) {
        let value = f32(x[i]);
        out[i] = elem(value * params.value);
    }
}
