//! op = "cast"
//! workgroups = ["min(ceil_div(n, 64), 5)"]
//! guarded = true
//! [types]
//! from_elem = ["f32", "f16"]
//! to_elem = ["f16", "f32"]
// out (n) = x (n) in another element type; at most five workgroups, which stride over all elements

alias from_elem = f32;
alias to_elem = f16;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<from_elem>;
@group(0) @binding(1) var<storage, read_write> out: array<to_elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < params.n; i += groups.x * 64u) {
        out[i] = to_elem(x[i]);
    }
}
