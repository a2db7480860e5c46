//! op = "kv_cache_write"
//! workgroups = ["heads", "tokens"]
//! requires = ["heads <= 65535", "tokens <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// cache (heads, capacity, head_dim) [h, start + t] = x (tokens, heads, head_dim) [t, h]; a workgroup a head of a token

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, capacity: u32, start: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> cache: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    if (group.x >= params.heads || group.y >= params.tokens) {
        return;
    }
    for (var d = lane; d < params.head_dim; d += 32u) {
        let at = (group.x * params.capacity + params.start + group.y) * params.head_dim + d;
        cache[at] = x[(group.y * params.heads + group.x) * params.head_dim + d];
    }
}
