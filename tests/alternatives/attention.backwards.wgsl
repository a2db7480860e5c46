//! op = "attention"
//! workgroups = ["heads", "tokens"]
//! requires = ["head_dim <= 256", "heads <= 65535", "tokens <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (tokens, heads, head_dim) = softmax(scale q k^T) v, query t over positions 0 to start + t of k and v (kv_heads,
// capacity, head_dim), q (tokens, heads, head_dim); head h reads h / group. A workgroup a query's head: keys from the
// last, the query scaled before the products, a lane an element of the values

alias elem = f32;

struct Params { tokens: u32, heads: u32, kv_heads: u32, capacity: u32, head_dim: u32, start: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<uniform> params: Params;

const WG = 32u;

var<workgroup> weights: array<f32, WG>;

// The score of a query with a key.
fn product(query: u32, row: u32) -> f32 {
    var sum = 0.0;
    for (var d = params.head_dim; d > 0u; d--) {
        sum = fma(f32(q[query + d - 1u]) * params.scale, f32(k[row + d - 1u]), sum);
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let live = group.x < params.heads && group.y < params.tokens;
    let end = select(0u, params.start + group.y + 1u, live);
    let first = group.x / (params.heads / params.kv_heads) * params.capacity;
    let query = (group.y * params.heads + group.x) * params.head_dim;
    var highest = -3.4028234663852886e38;
    for (var i = lane; i < end; i += WG) {
        highest = max(highest, product(query, (first + end - 1u - i) * params.head_dim));
    }
    weights[lane] = highest;
    workgroupBarrier();
    for (var i = 0u; i < WG; i++) {
        highest = max(highest, weights[i]);
    }
    for (var from_element = 0u; from_element < select(0u, params.head_dim, live); from_element += WG) {
        let d = min(from_element + lane, params.head_dim - 1u);
        var sum = 0.0;
        var value = 0.0;
        for (var seen = 0u; seen < end; seen += WG) {
            workgroupBarrier();
            let own = min(seen + lane, end - 1u);
            weights[lane] = exp(product(query, (first + end - 1u - own) * params.head_dim) - highest);
            workgroupBarrier();
            for (var i = 0u; i < min(WG, end - seen); i++) {
                sum += weights[i];
                value += weights[i] * f32(v[(first + end - 1u - seen - i) * params.head_dim + d]);
            }
        }
        if (from_element + lane < params.head_dim) {
            out[query + d] = elem(value * (1.0 / sum));
        }
    }
}
