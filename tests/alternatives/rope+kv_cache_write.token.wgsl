//! op = "rope+kv_cache_write"
//! workgroups = ["ceil_div(tokens, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// qkv (tokens, heads + 2 kv_heads, head_dim) cut into queries, keys and values; queries and keys turned half-split by
// row start + t of cos and sin (capacity, half); k_cache and v_cache (kv_heads, capacity, head_dim) written from start
// on; an invocation a token, from its last element

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

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let token = id.x;
    if (token >= params.tokens) {
        return;
    }
    let all_heads = params.heads + 2u * params.kv_heads;
    for (var i = all_heads * params.head_dim; i > 0u; i--) {
        let head = (i - 1u) / params.head_dim;
        let d = (i - 1u) % params.head_dim;
        let first = (token * all_heads + head) * params.head_dim;
        var value = f32(qkv[first + d]);
        if (head < params.heads + params.kv_heads && d < 2u * params.half) {
            let row = (params.start + token) * params.half + d % params.half;
            let partner = f32(qkv[first + (d + params.half) % (2u * params.half)]);
            let turn = vec2<f32>(f32(cos[row]), select(f32(sin[row]), -f32(sin[row]), d < params.half));
            value = dot(vec2<f32>(value, partner), turn);
        }
        store(token, head, d, value);
    }
}
