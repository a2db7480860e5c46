//! op = "rms_norm+linear+rope+kv_cache_write"
//! optional = ["bias"]
//! guarded = true
//! [[pass]]
//! entry = "normalise"
//! workgroups = ["ceil_div(tokens * k, 64)"]
//! [[pass]]
//! entry = "multiply"
//! workgroups = ["ceil_div(tokens * (heads + 2 * kv_heads) * head_dim, 64)"]
//! [[pass]]
//! entry = "turn"
//! workgroups = ["ceil_div(tokens * (heads + 2 * kv_heads) * head_dim, 64)"]
//! [scratch]
//! normal = {dtype = "f32", shape = ["tokens", "k"]}
//! qkv = {dtype = "f32", shape = ["tokens", "(heads + 2 * kv_heads) * head_dim"]}
//! [types]
//! elem = ["f32", "f16"]
// rms_norm(x, norm_weight) @ weight^T + bias, x (tokens, k), cut into queries, keys and values; queries and keys turned
// half-split by row start + t of rope_table (cosines, then sines; each capacity, half); kv_cache (keys, then values;
// each kv_heads, capacity, head_dim) written from start on; one after the other by way of scratch buffers

alias elem = f32;

struct Params {
    tokens: u32, k: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32, start: u32,
    eps: f32,
}

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> norm_weight: array<elem>;
@group(0) @binding(2) var<storage, read> weight: array<elem>;
@group(0) @binding(3) var<storage, read> rope_table: array<elem>;
@group(0) @binding(4) var<storage, read> bias: array<elem>; //? bias
@group(0) @binding(5) var<storage, read_write> normal: array<f32>;
@group(0) @binding(6) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(7) var<storage, read_write> q: array<elem>;
@group(0) @binding(8) var<storage, read_write> kv_cache: array<elem>;
@group(0) @binding(9) var<uniform> params: Params;

// What a row's norm multiplies its elements with.
fn scale_of(row: u32) -> f32 {
    var squares = 0.0;
    for (var i = 0u; i < params.k; i++) {
        let value = f32(x[row * params.k + i]);
        squares += value * value;
    }
    return 1.0 / sqrt(squares / f32(params.k) + params.eps);
}

@compute @workgroup_size(64)
fn normalise(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x / params.k;
    if (row < params.tokens) {
        normal[id.x] = f32(x[id.x]) * scale_of(row) * f32(norm_weight[id.x % params.k]);
    }
}

@compute @workgroup_size(64)
fn multiply(@builtin(global_invocation_id) id: vec3<u32>) {
    let width = (params.heads + 2u * params.kv_heads) * params.head_dim;
    if (id.x >= params.tokens * width) {
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < params.k; i++) {
        sum = fma(normal[id.x / width * params.k + i], f32(weight[id.x % width * params.k + i]), sum);
    }
    sum += f32(bias[id.x % width]); //? bias
    qkv[id.x] = sum;
}

fn element(token: u32, head: u32, d: u32) -> f32 {
    return qkv[(token * (params.heads + 2u * params.kv_heads) + head) * params.head_dim + d];
}

// Element d of a head after the rotation.
fn turned(token: u32, head: u32, d: u32) -> f32 {
    let value = element(token, head, d);
    if (head >= params.heads + params.kv_heads || d >= 2u * params.half) {
        return value;
    }
    let row = (params.start + token) * params.half + d % params.half;
    let c = f32(rope_table[row]);
    let s = f32(rope_table[params.capacity * params.half + row]);
    if (d < params.half) {
        return value * c - element(token, head, d + params.half) * s;
    }
    return value * c + element(token, head, d - params.half) * s;
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
fn turn(@builtin(global_invocation_id) id: vec3<u32>) {
    let width = (params.heads + 2u * params.kv_heads) * params.head_dim;
    let token = id.x / width;
    if (token < params.tokens) {
        let head = id.x % width / params.head_dim;
        let d = id.x % params.head_dim;
        store(token, head, d, turned(token, head, d));
    }
}
