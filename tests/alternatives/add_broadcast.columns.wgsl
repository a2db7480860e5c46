//! op = "add_broadcast"
//! workgroups = ["ceil_div(d3, 32)", "ceil_div(min(d0 * d1 * d2, 4000), 2)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (d0, d1, d2, d3) = a + b, two views: a[a_offset + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3], a (a_size), and so b;
// workgroups of two dimensions, along rows and across

alias elem = f32;

struct Params {
    d0: u32, d1: u32, d2: u32, d3: u32,
    a_offset: u32, a0: u32, a1: u32, a2: u32, a3: u32,
    b_offset: u32, b0: u32, b1: u32, b2: u32, b3: u32,
}

@group(0) @binding(0) var<storage, read> a: array<elem>;
@group(0) @binding(1) var<storage, read> b: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(32, 2)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i3 = id.x;
    if (i3 >= params.d3) {
        return;
    }
    for (var row = id.y; row < params.d0 * params.d1 * params.d2; row += groups.y * 2u) {
        let i0 = row / params.d2 / params.d1;
        let i1 = row / params.d2 - i0 * params.d1;
        let i2 = row - row / params.d2 * params.d2;
        let at_a = params.a_offset + i0 * params.a0 + i1 * params.a1 + i2 * params.a2 + i3 * params.a3;
        let at_b = params.b_offset + i0 * params.b0 + i1 * params.b1 + i2 * params.b2 + i3 * params.b3;
        out[row * params.d3 + i3] = elem(f32(a[at_a]) + f32(b[at_b]));
    }
}
