//! op = "attention"
//! guarded = true
//! [[pass]]
//! entry = "score"
//! workgroups = ["ceil_div(tokens * heads * capacity, 64)"]
//! [[pass]]
//! entry = "weigh"
//! workgroups = ["ceil_div(tokens * heads, 64)"]
//! [[pass]]
//! entry = "add_up"
//! workgroups = ["ceil_div(tokens * heads * head_dim, 64)"]
//! [scratch]
//! weights = {dtype = "f32", shape = ["tokens", "heads", "capacity"]}
//! [types]
//! elem = ["f32", "f16"]
// out (tokens, heads, head_dim) = softmax(scale q k^T) v, query t over positions 0 to start + t of k and v (kv_heads,
// capacity, head_dim), q (tokens, heads, head_dim); head h reads h / group. Scores, their softmax and the sum of values
// one after the other, as the formula says

alias elem = f32;

struct Params { tokens: u32, heads: u32, kv_heads: u32, capacity: u32, head_dim: u32, start: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(64)
fn score(@builtin(global_invocation_id) id: vec3<u32>) {
    let position = id.x % params.capacity;
    let query = id.x / params.capacity;
    if (query >= params.tokens * params.heads || position > params.start + query / params.heads) {
        return;
    }
    let kv_head = query % params.heads / (params.heads / params.kv_heads);
    var sum = 0.0;
    for (var d = 0u; d < params.head_dim; d++) {
        let key = f32(k[(kv_head * params.capacity + position) * params.head_dim + d]);
        sum += f32(q[query * params.head_dim + d]) * key;
    }
    weights[id.x] = sum * params.scale;
}

@compute @workgroup_size(64)
fn weigh(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.tokens * params.heads) {
        return;
    }
    let first = id.x * params.capacity;
    let end = params.start + id.x / params.heads + 1u;
    var highest = weights[first];
    for (var i = 1u; i < end; i++) {
        highest = max(highest, weights[first + i]);
    }
    var sum = 0.0;
    for (var i = 0u; i < end; i++) {
        sum += exp(weights[first + i] - highest);
    }
    for (var i = 0u; i < end; i++) {
        weights[first + i] = exp(weights[first + i] - highest) / sum;
    }
}

@compute @workgroup_size(64)
fn add_up(@builtin(global_invocation_id) id: vec3<u32>) {
    let d = id.x % params.head_dim;
    let query = id.x / params.head_dim;
    if (query >= params.tokens * params.heads) {
        return;
    }
    let kv_head = query % params.heads / (params.heads / params.kv_heads);
    var sum = 0.0;
    for (var i = 0u; i < params.start + query / params.heads + 1u; i++) {
        sum += weights[query * params.capacity + i] * f32(v[(kv_head * params.capacity + i) * params.head_dim + d]);
    }
    out[id.x] = elem(sum);
}
