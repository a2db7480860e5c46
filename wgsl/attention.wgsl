//! op = "attention"
//! workgroups = ["heads", "ceil_div(tokens, 32)"]
//! requires = ["head_dim % 4 == 0", "head_dim <= 256"]
//! prefer = ["tokens > 1"]
//! guarded = true
// out (tokens, heads, head_dim) = softmax(scale q k^T) v, query t over positions 0 to start + t of k and v
// (kv_heads, capacity, head_dim), q (tokens, heads, head_dim); head h reads h / group. A workgroup
// a head and 32 queries, by tiles of 32 positions; softmax online (Milakov and Gimelshein 2018).

struct Params { tokens: u32, heads: u32, kv_heads: u32, capacity: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> start: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> params: Params;

// An override, so that compilers unroll loops over it and keep the sums in registers.
override head_dim: u32 = 64;
const TILE = 32u;
const LANES = 8u; // invocations a query; each takes query `slot` and query `slot` + 16, and 4 positions of a tile
const LOWEST = -3.4028234663852886e38;

var<workgroup> highs: array<f32, 256>; // (query, lane)
var<workgroup> weights: array<f32, 1024>; // (query, position)

// The largest of a query's 8 lanes.
fn query_max(query: u32) -> f32 {
    var highest = highs[query * LANES];
    for (var i = 1u; i < LANES; i++) {
        highest = max(highest, highs[query * LANES + i]);
    }
    return highest;
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane_index: u32) {
    let width = head_dim / 4u;
    let head = group.x;
    let slot = lane_index / LANES;
    let lane = lane_index % LANES;
    let tokens = vec2<u32>(slot, slot + 16u) + group.y * TILE;
    // Queries beyond the last repeat it, and are not stored.
    let q_rows = (min(tokens, vec2<u32>(params.tokens - 1u)) * params.heads + head) * head_dim / 4u;
    let base = head / (params.heads / params.kv_heads) * params.capacity;
    let last = start[0] + min((group.y + 1u) * TILE, params.tokens);
    let end = select(0u, last, head < params.heads && group.y * TILE < params.tokens);
    var highest = vec2<f32>(LOWEST);
    var totals = vec2<f32>();
    var sums_a: array<vec4<f32>, 8>;
    var sums_b: array<vec4<f32>, 8>;
    for (var first = 0u; first < end; first += TILE) {
        let positions = first + lane + vec4<u32>(0u, 8u, 16u, 24u);
        let rows = (base + min(positions, vec4<u32>(end - 1u))) * width;
        var scores_a = vec4<f32>();
        var scores_b = vec4<f32>();
        for (var i = 0u; i < width; i++) {
            let a = q[q_rows.x + i];
            let b = q[q_rows.y + i];
            let k0 = k[rows.x + i];
            let k1 = k[rows.y + i];
            let k2 = k[rows.z + i];
            let k3 = k[rows.w + i];
            scores_a += vec4<f32>(dot(a, k0), dot(a, k1), dot(a, k2), dot(a, k3));
            scores_b += vec4<f32>(dot(b, k0), dot(b, k1), dot(b, k2), dot(b, k3));
        }
        let seen_a = positions <= vec4<u32>(start[0] + tokens.x);
        let seen_b = positions <= vec4<u32>(start[0] + tokens.y);
        scores_a = select(vec4<f32>(LOWEST), scores_a * params.scale, seen_a);
        scores_b = select(vec4<f32>(LOWEST), scores_b * params.scale, seen_b);
        highs[slot * LANES + lane] = max(max(scores_a.x, scores_a.y), max(scores_a.z, scores_a.w));
        highs[(slot + 16u) * LANES + lane] = max(max(scores_b.x, scores_b.y), max(scores_b.z, scores_b.w));
        workgroupBarrier();
        let new_highest = max(highest, vec2<f32>(query_max(slot), query_max(slot + 16u)));
        let rescale = exp(highest - new_highest);
        highest = new_highest;
        let weights_a = select(vec4<f32>(), exp(scores_a - highest.x), seen_a);
        let weights_b = select(vec4<f32>(), exp(scores_b - highest.y), seen_b);
        for (var i = 0u; i < 4u; i++) {
            weights[slot * TILE + lane + i * LANES] = weights_a[i];
            weights[(slot + 16u) * TILE + lane + i * LANES] = weights_b[i];
        }
        totals *= rescale;
        for (var i = 0u; i < 8u; i++) {
            sums_a[i] *= rescale.x;
            sums_b[i] *= rescale.y;
        }
        workgroupBarrier();
        for (var i = 0u; i < min(TILE, end - first); i++) {
            let a = weights[slot * TILE + i];
            let b = weights[(slot + 16u) * TILE + i];
            totals += vec2<f32>(a, b);
            for (var c = 0u; c * LANES < width; c++) {
                let column = c * LANES + lane;
                if (column < width) {
                    let value = v[(base + first + i) * width + column];
                    sums_a[c] = fma(vec4<f32>(a), value, sums_a[c]);
                    sums_b[c] = fma(vec4<f32>(b), value, sums_b[c]);
                }
            }
        }
    }
    for (var c = 0u; c * LANES < width; c++) {
        let column = c * LANES + lane;
        if (column < width && head < params.heads) {
            if (tokens.x < params.tokens) {
                out[q_rows.x + column] = sums_a[c] / totals.x;
            }
            if (tokens.y < params.tokens) {
                out[q_rows.y + column] = sums_b[c] / totals.y;
            }
        }
    }
}
