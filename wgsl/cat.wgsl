//! op = "cat"
//! workgroups = ["fold2d(ceil_div(d0 * d1 * d2 * (a_cols + b_cols), WG))"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [256, 64]
// out (d0, d1, d2, a_cols + b_cols) = two views behind each other: a[a_offset + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3],
// a (a_size), and so b

alias elem = f32;

struct Params {
    d0: u32, d1: u32, d2: u32, a_cols: u32, b_cols: u32,
    a_offset: u32, a0: u32, a1: u32, a2: u32, a3: u32,
    b_offset: u32, b0: u32, b1: u32, b2: u32, b3: u32,
}

@group(0) @binding(0) var<storage, read> a: array<elem>;
@group(0) @binding(1) var<storage, read> b: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    let cols = params.a_cols + params.b_cols;
    if (i < params.d0 * params.d1 * params.d2 * cols) {
        let i3 = i % cols;
        let i2 = i / cols % params.d2;
        let i1 = i / (cols * params.d2) % params.d1;
        let i0 = i / (cols * params.d2 * params.d1);
        if (i3 < params.a_cols) {
            out[i] = a[params.a_offset + i0 * params.a0 + i1 * params.a1 + i2 * params.a2 + i3 * params.a3];
        } else {
            let j3 = i3 - params.a_cols;
            out[i] = b[params.b_offset + i0 * params.b0 + i1 * params.b1 + i2 * params.b2 + j3 * params.b3];
        }
    }
}
