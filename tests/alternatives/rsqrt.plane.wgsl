//! op = "rsqrt"
//! workgroups = ["ceil_div(n, 64 * 8)", "8"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (n) = 1 / sqrt(x), x (n); workgroups of two dimensions in two dimensions

alias elem = f32;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(8, 8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let i = (group.x * 8u + group.y) * 64u + local.x * 8u + local.y;
    if (group.y < 8u && i < params.n) {
        out[i] = elem(sqrt(1.0 / f32(x[i])));
    }
}
