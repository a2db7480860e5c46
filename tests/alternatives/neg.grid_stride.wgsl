//! op = "neg"
//! workgroups = ["min(ceil_div(d0 * d1 * d2 * d3, 64), 7)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (d0, d1, d2, d3) = -a[a_offset + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3], a (a_size); at most seven workgroups,
// which stride over all elements

alias elem = f32;

struct Params {
    d0: u32, d1: u32, d2: u32, d3: u32,
    a_offset: u32, a0: u32, a1: u32, a2: u32, a3: u32,
}

@group(0) @binding(0) var<storage, read> a: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let size = params.d0 * params.d1 * params.d2 * params.d3;
    for (var i = id.x; i < size; i += groups.x * 64u) {
        var rest = i;
        let i3 = rest % params.d3;
        rest /= params.d3;
        let i2 = rest % params.d2;
        rest /= params.d2;
        let i1 = rest % params.d1;
        let i0 = rest / params.d1;
        let at_a = params.a_offset + i0 * params.a0 + i1 * params.a1 + i2 * params.a2 + i3 * params.a3;
        out[i] = -a[at_a];
    }
}
