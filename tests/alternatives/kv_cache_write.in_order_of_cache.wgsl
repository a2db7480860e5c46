//! op = "kv_cache_write"
//! workgroups = ["min(ceil_div(tokens * heads * head_dim, 64), 9)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// cache (heads, capacity, head_dim) [h, start + t] = x (tokens, heads, head_dim) [t, h]; at most nine workgroups, which
// stride over the cache's new elements in their order

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, capacity: u32, start: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> cache: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let width = params.tokens * params.head_dim;
    for (var i = id.x; i < params.heads * width; i += groups.x * 64u) {
        let h = i / width;
        let t = i % width / params.head_dim;
        let d = i % params.head_dim;
        cache[h * params.capacity * params.head_dim + params.start * params.head_dim + i % width] =
            x[(t * params.heads + h) * params.head_dim + d];
    }
}
