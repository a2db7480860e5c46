//! op = "silu"
//! workgroups = ["min(ceil_div(n, 64), 5)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (n) = x * sigmoid(x), x (n); at most five workgroups, which stride over all elements

alias elem = f32;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

// Of two branches the one whose exponential cannot overflow.
fn silu(x: f32) -> f32 {
    if (x < 0.0) {
        let e = exp(x);
        return x * (e / (1.0 + e));
    }
    return x / (1.0 + exp(-x));
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < params.n; i += groups.x * 64u) {
        out[i] = elem(silu(f32(x[i])));
    }
}
