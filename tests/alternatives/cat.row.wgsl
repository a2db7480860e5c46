//! op = "cat"
//! workgroups = ["min(d0 * d1 * d2, 200)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (d0, d1, d2, a_cols + b_cols) = two views behind each other: a[a_offset + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3],
// a (a_size), and so b; a workgroup a row at a time, first a, then b

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

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    for (var row = group.x; row < params.d0 * params.d1 * params.d2; row += groups.x) {
        let i2 = row % params.d2;
        let i1 = row / params.d2 % params.d1;
        let i0 = row / params.d2 / params.d1;
        let cols = params.a_cols + params.b_cols;
        let first_a = params.a_offset + i0 * params.a0 + i1 * params.a1 + i2 * params.a2;
        let first_b = params.b_offset + i0 * params.b0 + i1 * params.b1 + i2 * params.b2;
        for (var c = lane; c < params.a_cols; c += 64u) {
            out[row * cols + c] = a[first_a + c * params.a3];
        }
        for (var c = lane; c < params.b_cols; c += 64u) {
            out[row * cols + params.a_cols + c] = b[first_b + c * params.b3];
        }
    }
}
