//! op = "rope+kv_cache_write"
//! workgroups = ["heads + 2 * kv_heads", "tokens"]
//! requires = ["heads + 2 * kv_heads <= 65535", "tokens <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// qkv (tokens, heads + 2 kv_heads, head_dim) cut into queries, keys and values; queries and keys turned half-split by
// row start + t of cos and sin (capacity, half); k_cache and v_cache (kv_heads, capacity, head_dim) written from start
// on; a workgroup a head of a token

alias elem = f32;

struct Params { tokens: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32, start: u32 }

@group(0) @binding(0) var<storage, read> qkv: array<elem>;
@group(0) @binding(1) var<storage, read> cos: array<elem>;
@group(0) @binding(2) var<storage, read> sin: array<elem>;
@group(0) @binding(3) var<storage, read_write> q: array<elem>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<elem>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<elem>;
@group(0) @binding(6) var<uniform> params: Params;

// Puts element d of a head where it belongs.
fn store(token: u32, head: u32, d: u32, value: f32) {
    let slot = params.start + token;
    if (head < params.heads) {
        q[(token * params.heads + head) * params.head_dim + d] = elem(value);
    } else if (head < params.heads + params.kv_heads) {
        k_cache[((head - params.heads) * params.capacity + slot) * params.head_dim + d] = elem(value);
    } else {
        let own = head - params.heads - params.kv_heads;
        v_cache[(own * params.capacity + slot) * params.head_dim + d] = elem(value);
    }
}

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let all_heads = params.heads + 2u * params.kv_heads;
    if (group.x >= all_heads || group.y >= params.tokens) {
        return;
    }
    let first = (group.y * all_heads + group.x) * params.head_dim;
    let pairs = select(0u, params.half, group.x < params.heads + params.kv_heads);
    let row = (params.start + group.y) * params.half;
    for (var i = lane; i < pairs; i += 32u) {
        let a = f32(qkv[first + i]);
        let b = f32(qkv[first + pairs + i]);
        store(group.y, group.x, i, a * f32(cos[row + i]) - b * f32(sin[row + i]));
        store(group.y, group.x, pairs + i, b * f32(cos[row + i]) + a * f32(sin[row + i]));
    }
    for (var d = 2u * pairs + lane; d < params.head_dim; d += 32u) {
        store(group.y, group.x, d, f32(qkv[first + d]));
    }
}
