//! op = "kv_cache_write"
//! workgroups = ["fold2d(ceil_div(tokens * heads * head_dim, WG))"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [128, 64]
// cache (heads, capacity, head_dim) [h, start + t] = x (tokens, heads, head_dim) [t, h]; start lies on the device

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, capacity: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> start: array<u32>;
@group(0) @binding(2) var<storage, read_write> cache: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 128;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i < params.tokens * params.heads * params.head_dim) {
        let head = i / params.head_dim % params.heads;
        let position = start[0] + i / (params.head_dim * params.heads);
        cache[(head * params.capacity + position) * params.head_dim + i % params.head_dim] = x[i];
    }
}
