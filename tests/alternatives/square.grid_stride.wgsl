//! op = "square"
//! workgroups = ["min(ceil_div(n, 64), 5)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (n) = x * x, x (n); at most five workgroups, which stride over all elements

alias elem = f32;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < params.n; i += groups.x * 64u) {
        out[i] = elem(abs(f32(x[i])) * abs(f32(x[i])));
    }
}
