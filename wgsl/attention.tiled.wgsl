//! op = "attention"
//! workgroups = ["heads", "ceil_div(tokens, 32)"]
//! requires = ["head_dim % 4 == 0", "head_dim <= 128"]
//! prefer = ["tokens > 4"]
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

override head_dim: u32 = 64;
const TILE = 32u;
const LANES = 8u; // a query; each lane has queries `slot` and `slot` + 16, and 4 positions of a tile
const LOWEST = -3.4028234663852886e38;

var<workgroup> shares: array<vec2<f32>, 128>; // of both queries, a lane: the maximum, at the end the sum
var<workgroup> weights: array<vec4<f32>, 256>; // (query, 4 positions)

fn largest(value: vec4<f32>) -> f32 {
    return max(max(value.x, value.y), max(value.z, value.w));
}

fn store(query: u32, row: u32, column: u32, value: vec4<f32>) {
    if (query < params.tokens && column < head_dim / 4u) {
        out[row + column] = value;
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let width = head_dim / 4u;
    let head = group.x;
    let slot = index / LANES;
    let lane = index % LANES;
    let tokens = vec2<u32>(slot, slot + 16u) + group.y * TILE;
    // Queries beyond the last repeat it, and are not stored.
    let q_rows = (min(tokens, vec2<u32>(params.tokens - 1u)) * params.heads + head) * (head_dim / 4u);
    let base = head / (params.heads / params.kv_heads) * params.capacity;
    let last = start[0] + min((group.y + 1u) * TILE, params.tokens);
    let end = select(0u, last, head < params.heads && group.y * TILE < params.tokens);
    let four = vec4<u32>(0u, 1u, 2u, 3u);
    var highest = vec2<f32>(LOWEST);
    var totals = vec2<f32>();
    // Sums have names and conditions are constant: an array indexed in a loop would not stay in registers.
    var a0 = vec4<f32>(); var a1 = vec4<f32>(); var a2 = vec4<f32>(); var a3 = vec4<f32>();
    var b0 = vec4<f32>(); var b1 = vec4<f32>(); var b2 = vec4<f32>(); var b3 = vec4<f32>();
    for (var first = 0u; first < end; first += TILE) {
        let positions = first + 4u * lane + four;
        let rows = (base + min(positions, vec4<u32>(end - 1u))) * width;
        var scores_a = vec4<f32>();
        var scores_b = vec4<f32>();
        for (var i = 0u; i < width; i++) {
            let keys = mat4x4<f32>(k[rows.x + i], k[rows.y + i], k[rows.z + i], k[rows.w + i]);
            scores_a += q[q_rows.x + i] * keys;
            scores_b += q[q_rows.y + i] * keys;
        }
        let seen_a = positions <= vec4<u32>(start[0] + tokens.x);
        let seen_b = positions <= vec4<u32>(start[0] + tokens.y);
        scores_a = select(vec4<f32>(LOWEST), scores_a * params.scale, seen_a);
        scores_b = select(vec4<f32>(LOWEST), scores_b * params.scale, seen_b);
        shares[index] = vec2<f32>(largest(scores_a), largest(scores_b));
        workgroupBarrier();
        var new_highest = highest;
        for (var i = 0u; i < LANES; i++) {
            new_highest = max(new_highest, shares[slot * LANES + i]);
        }
        let rescale = exp(highest - new_highest);
        highest = new_highest;
        let weights_a = select(vec4<f32>(), exp(scores_a - highest.x), seen_a);
        let weights_b = select(vec4<f32>(), exp(scores_b - highest.y), seen_b);
        weights[index] = weights_a;
        weights[index + 128u] = weights_b;
        totals = totals * rescale + vec2<f32>(dot(weights_a, vec4<f32>(1.0)), dot(weights_b, vec4<f32>(1.0)));
        a0 = a0 * rescale.x;
        b0 = b0 * rescale.y;
        a1 = a1 * rescale.x;
        b1 = b1 * rescale.y;
        a2 = a2 * rescale.x;
        b2 = b2 * rescale.y;
        a3 = a3 * rescale.x;
        b3 = b3 * rescale.y;
        workgroupBarrier();
        for (var i = 0u; i < LANES && first + 4u * i < end; i++) {
            let weight_a = weights[slot * LANES + i];
            let weight_b = weights[slot * LANES + i + 128u];
            let row = (base + min(first + 4u * i + four, vec4<u32>(end - 1u))) * width;
            let at0 = row + min(lane + 0u, width - 1u);
            let values0 = mat4x4<f32>(v[at0.x], v[at0.y], v[at0.z], v[at0.w]);
            a0 += values0 * weight_a;
            b0 += values0 * weight_b;
            if (head_dim > 32u) {
                let at1 = row + min(lane + 8u, width - 1u);
                let values1 = mat4x4<f32>(v[at1.x], v[at1.y], v[at1.z], v[at1.w]);
                a1 += values1 * weight_a;
                b1 += values1 * weight_b;
            }
            if (head_dim > 64u) {
                let at2 = row + min(lane + 16u, width - 1u);
                let values2 = mat4x4<f32>(v[at2.x], v[at2.y], v[at2.z], v[at2.w]);
                a2 += values2 * weight_a;
                b2 += values2 * weight_b;
                let at3 = row + min(lane + 24u, width - 1u);
                let values3 = mat4x4<f32>(v[at3.x], v[at3.y], v[at3.z], v[at3.w]);
                a3 += values3 * weight_a;
                b3 += values3 * weight_b;
            }
        }
    }
    workgroupBarrier();
    shares[index] = totals;
    workgroupBarrier();
    totals = vec2<f32>();
    for (var i = 0u; i < LANES; i++) {
        totals += shares[slot * LANES + i];
    }
    let scale = 1.0 / totals;
    if (head >= params.heads) {
        return;
    }
    store(tokens.x, q_rows.x, lane, a0 * scale.x);
    store(tokens.y, q_rows.y, lane, b0 * scale.y);
    store(tokens.x, q_rows.x, lane + 8u, a1 * scale.x);
    store(tokens.y, q_rows.y, lane + 8u, b1 * scale.y);
    store(tokens.x, q_rows.x, lane + 16u, a2 * scale.x);
    store(tokens.y, q_rows.y, lane + 16u, b2 * scale.y);
    store(tokens.x, q_rows.x, lane + 24u, a3 * scale.x);
    store(tokens.y, q_rows.y, lane + 24u, b3 * scale.y);
}
