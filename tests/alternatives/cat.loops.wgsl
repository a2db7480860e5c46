//! op = "cat"
//! workgroups = ["ceil_div(d0, 4)", "ceil_div(d1, 4)", "ceil_div(d2, 2)"]
//! requires = ["d2 <= 131070"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (d0, d1, d2, a_cols + b_cols) = two views behind each other: a[a_offset + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3],
// a (a_size), and so b; an invocation a row, from its end

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

@compute @workgroup_size(4, 4, 2)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i0 = id.x;
    let i1 = id.y;
    let i2 = id.z;
    if (i0 >= params.d0 || i1 >= params.d1 || i2 >= params.d2) {
        return;
    }
    let cols = params.a_cols + params.b_cols;
    let first_a = params.a_offset + i0 * params.a0 + i1 * params.a1 + i2 * params.a2;
    let first_b = params.b_offset + i0 * params.b0 + i1 * params.b1 + i2 * params.b2;
    let row = ((i0 * params.d1 + i1) * params.d2 + i2) * cols;
    for (var c = cols; c > params.a_cols; c--) {
        out[row + c - 1u] = b[first_b + (c - 1u - params.a_cols) * params.b3];
    }
    for (var c = params.a_cols; c > 0u; c--) {
        out[row + c - 1u] = a[first_a + (c - 1u) * params.a3];
    }
}
