//! op = "cat"
//! guarded = true
//! [[pass]]
//! entry = "left"
//! workgroups = ["ceil_div(d0 * d1 * d2 * a_cols, 64)"]
//! [[pass]]
//! entry = "right"
//! workgroups = ["ceil_div(d0 * d1 * d2 * b_cols, 64)"]
//! [types]
//! elem = ["f32", "f16"]
// out (d0, d1, d2, a_cols + b_cols) = two views behind each other: a[a_offset + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3],
// a (a_size), and so b; a pass each

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
fn left(@builtin(global_invocation_id) id: vec3<u32>) {
    let c = id.x % params.a_cols;
    let row = id.x / params.a_cols;
    if (row < params.d0 * params.d1 * params.d2) {
        let i = vec3<u32>(row / params.d2 / params.d1, row / params.d2 % params.d1, row % params.d2);
        let at = params.a_offset + i.x * params.a0 + i.y * params.a1 + i.z * params.a2 + c * params.a3;
        out[row * (params.a_cols + params.b_cols) + c] = a[at];
    }
}

@compute @workgroup_size(64)
fn right(@builtin(global_invocation_id) id: vec3<u32>) {
    let c = id.x % params.b_cols;
    let row = id.x / params.b_cols;
    if (row < params.d0 * params.d1 * params.d2) {
        let i = vec3<u32>(row / params.d2 / params.d1, row / params.d2 % params.d1, row % params.d2);
        let at = params.b_offset + i.x * params.b0 + i.y * params.b1 + i.z * params.b2 + c * params.b3;
        out[row * (params.a_cols + params.b_cols) + params.a_cols + c] = b[at];
    }
}
