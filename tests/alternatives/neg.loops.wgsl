//! op = "neg"
//! workgroups = ["ceil_div(d0, 4)", "ceil_div(d1, 4)", "ceil_div(min(d2, 1000), 2)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (d0, d1, d2, d3) = -a[a_offset + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3], a (a_size); an invocation a row, or
// several, by nested loops

alias elem = f32;

struct Params {
    d0: u32, d1: u32, d2: u32, d3: u32,
    a_offset: u32, a0: u32, a1: u32, a2: u32, a3: u32,
}

@group(0) @binding(0) var<storage, read> a: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(4, 4, 2)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i0 = id.x;
    let i1 = id.y;
    if (i0 >= params.d0 || i1 >= params.d1) {
        return;
    }
    for (var i2 = id.z; i2 < params.d2; i2 += groups.z * 2u) {
        for (var i3 = 0u; i3 < params.d3; i3++) {
            let at_a = params.a_offset + i0 * params.a0 + i1 * params.a1 + i2 * params.a2 + i3 * params.a3;
            out[((i0 * params.d1 + i1) * params.d2 + i2) * params.d3 + i3] = -a[at_a];
        }
    }
}
