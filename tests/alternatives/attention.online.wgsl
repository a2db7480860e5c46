//! op = "attention"
//! workgroups = ["ceil_div(tokens * heads, 32)"]
//! requires = ["head_dim <= 128"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (tokens, heads, head_dim) = softmax(scale q k^T) v, query t over positions 0 to start + t of k and v (kv_heads,
// capacity, head_dim), q (tokens, heads, head_dim); head h reads h / group. An invocation a query's head, softmax
// online

alias elem = f32;

struct Params { tokens: u32, heads: u32, kv_heads: u32, capacity: u32, head_dim: u32, start: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.tokens * params.heads) {
        return;
    }
    let token = id.x / params.heads;
    let kv_head = id.x % params.heads / (params.heads / params.kv_heads);
    let query = id.x * params.head_dim;
    var highest = -3.4028234663852886e38;
    var sum = 0.0;
    var values = array<f32, 128>();
    for (var position = 0u; position <= params.start + token; position++) {
        let row = (kv_head * params.capacity + position) * params.head_dim;
        var score = 0.0;
        for (var d = 0u; d < params.head_dim; d++) {
            score += f32(q[query + d]) * f32(k[row + d]);
        }
        score *= params.scale;
        let higher = max(highest, score);
        let before = exp(highest - higher);
        let weight = exp(score - higher);
        highest = higher;
        sum = sum * before + weight;
        for (var d = 0u; d < params.head_dim; d++) {
            values[d] = values[d] * before + weight * f32(v[row + d]);
        }
    }
    for (var d = 0u; d < params.head_dim; d++) {
        out[query + d] = elem(values[d] / sum);
    }
}
