//! op = "rms_norm+linear+rope+kv_cache_write"
//! workgroups = ["ceil_div(tokens * (heads + 2 * kv_heads) * head_dim, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// rms_norm(x, norm_weight) @ weight^T, x (tokens, k), cut into queries, keys and values; queries and keys turned
// half-split by row start + t of rope_table (cosines, then sines; each capacity, half); kv_cache (keys, then values;
// each kv_heads, capacity, head_dim) written from start on; the row's scale multiplies the product, from the last term

alias elem = f32;

struct Params {
    tokens: u32, k: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32, start: u32,
    eps: f32,
}

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> norm_weight: array<elem>;
@group(0) @binding(2) var<storage, read> weight: array<elem>;
@group(0) @binding(3) var<storage, read> rope_table: array<elem>;
@group(0) @binding(4) var<storage, read_write> q: array<elem>;
@group(0) @binding(5) var<storage, read_write> kv_cache: array<elem>;
@group(0) @binding(6) var<uniform> params: Params;

// What a row's norm multiplies its elements with.
fn scale_of(row: u32) -> f32 {
    var squares = 0.0;
    for (var i = 0u; i < params.k; i++) {
        let value = f32(x[row * params.k + i]);
        squares += value * value;
    }
    return 1.0 / sqrt(squares / f32(params.k) + params.eps);
}

// Output `output` of a token's product.
fn product(token: u32, output: u32) -> f32 {
    var sum = 0.0;
    for (var i = params.k; i > 0u; i--) {
        sum += f32(x[token * params.k + i - 1u]) * (f32(norm_weight[i - 1u]) * f32(weight[output * params.k + i - 1u]));
    }
    return sum * scale_of(token);
}

// Element d of a head after the rotation.
fn turned(token: u32, head: u32, d: u32) -> f32 {
    let value = product(token, head * params.head_dim + d);
    if (head >= params.heads + params.kv_heads || d >= 2u * params.half) {
        return value;
    }
    let row = (params.start + token) * params.half + d % params.half;
    let c = f32(rope_table[row]);
    let s = f32(rope_table[params.capacity * params.half + row]);
    if (d < params.half) {
        return value * c - product(token, head * params.head_dim + d + params.half) * s;
    }
    return value * c + product(token, head * params.head_dim + d - params.half) * s;
}

// Puts element d of a head where it belongs.
fn store(token: u32, head: u32, d: u32, value: f32) {
    if (head < params.heads) {
        q[(token * params.heads + head) * params.head_dim + d] = elem(value);
    } else { // the values' heads come behind the keys', in qkv and in the cache
        let own = head - params.heads;
        kv_cache[(own * params.capacity + params.start + token) * params.head_dim + d] = elem(value);
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let width = (params.heads + 2u * params.kv_heads) * params.head_dim;
    let token = id.x / width;
    if (token < params.tokens) {
        let head = id.x % width / params.head_dim;
        let d = id.x % params.head_dim;
        store(token, head, d, turned(token, head, d));
    }
}
