//! op = "copy"
//! workgroups = ["ceil_div(d3, 32)", "ceil_div(min(d0 * d1 * d2, 4000), 2)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (d0, d1, d2, d3) = x[offset + i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3], x (size); workgroups of two dimensions,
// along rows and across

alias elem = f32;

struct Params { d0: u32, d1: u32, d2: u32, d3: u32, offset: u32, s0: u32, s1: u32, s2: u32, s3: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

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
        let at = params.offset + i0 * params.s0 + i1 * params.s1 + i2 * params.s2 + i3 * params.s3;
        out[row * params.d3 + i3] = x[at];
    }
}
