//! op = "rope+kv_cache_write"
//! guarded = true
//! [[pass]]
//! entry = "queries"
//! workgroups = ["ceil_div(tokens * heads * head_dim, 64)"]
//! [[pass]]
//! entry = "keys"
//! workgroups = ["ceil_div(tokens * kv_heads * head_dim, 64)"]
//! [[pass]]
//! entry = "values"
//! workgroups = ["ceil_div(tokens * kv_heads * head_dim, 64)"]
//! [types]
//! elem = ["f32", "f16"]
// qkv (tokens, heads + 2 kv_heads, head_dim) cut into queries, keys and values; queries and keys turned half-split by
// row start + t of cos and sin (capacity, half); k_cache and v_cache (kv_heads, capacity, head_dim) written from start
// on; queries, keys and values one after the other

alias elem = f32;

struct Params { tokens: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32, start: u32 }

@group(0) @binding(0) var<storage, read> qkv: array<elem>;
@group(0) @binding(1) var<storage, read> cos: array<elem>;
@group(0) @binding(2) var<storage, read> sin: array<elem>;
@group(0) @binding(3) var<storage, read_write> q: array<elem>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<elem>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<elem>;
@group(0) @binding(6) var<uniform> params: Params;

// Element d of a head that begins at `first`, turned as the position says.
fn turned(first: u32, d: u32, position: u32) -> f32 {
    if (d >= 2u * params.half) {
        return f32(qkv[first + d]);
    }
    let i = d % params.half;
    let c = f32(cos[position * params.half + i]);
    let s = f32(sin[position * params.half + i]);
    let pair = mat2x2<f32>(c, s, -s, c) * vec2<f32>(f32(qkv[first + i]), f32(qkv[first + params.half + i]));
    return pair[d / params.half];
}

@compute @workgroup_size(64)
fn queries(@builtin(global_invocation_id) id: vec3<u32>) {
    let d = id.x % params.head_dim;
    let head = id.x / params.head_dim % params.heads;
    let token = id.x / params.head_dim / params.heads;
    if (token < params.tokens) {
        let first = (token * (params.heads + 2u * params.kv_heads) + head) * params.head_dim;
        q[id.x] = elem(turned(first, d, params.start + token));
    }
}

@compute @workgroup_size(64)
fn keys(@builtin(global_invocation_id) id: vec3<u32>) {
    let d = id.x % params.head_dim;
    let head = id.x / params.head_dim % params.kv_heads;
    let token = id.x / params.head_dim / params.kv_heads;
    if (token < params.tokens) {
        let first = (token * (params.heads + 2u * params.kv_heads) + params.heads + head) * params.head_dim;
        let slot = params.start + token;
        k_cache[(head * params.capacity + slot) * params.head_dim + d] = elem(turned(first, d, slot));
    }
}

@compute @workgroup_size(64)
fn values(@builtin(global_invocation_id) id: vec3<u32>) {
    let d = id.x % params.head_dim;
    let head = id.x / params.head_dim % params.kv_heads;
    let token = id.x / params.head_dim / params.kv_heads;
    if (token < params.tokens) {
        let own = token * (params.heads + 2u * params.kv_heads) + params.heads + params.kv_heads + head;
        v_cache[(head * params.capacity + params.start + token) * params.head_dim + d] = qkv[own * params.head_dim + d];
    }
}
