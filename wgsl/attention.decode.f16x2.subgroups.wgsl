//! op = "attention"
//! workgroups = ["heads"]
//! requires = ["tokens == 1", "head_dim % 32 == 0", "256 % head_dim == 0"]
//! prefer = ["capacity <= 1024"]
//! guarded = true
//! [storage]
//! k = "f16x2"
//! v = "f16x2"
//! [tune]
//! WG = [256, 128]
// out (1, heads, head_dim) = softmax(scale q k^T) v over positions 0 to start, q (1, heads, head_dim), k and v
// (kv_heads, capacity, head_dim; two halves a word); head h reads h / group. One query: a workgroup a head,
// softmax online (Milakov and Gimelshein 2018), no array grows with the cache. Loads are written out four at a time, so
// that they wait for memory together.

enable subgroups;

struct Params { heads: u32, kv_heads: u32, head_dim: u32, capacity: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> start: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> params: Params;

override WG: u32 = 256;
const LOWEST = -3.4028234663852886e38;

var<workgroup> query: array<vec4<f32>, 64>;
var<workgroup> weights: array<f32, WG>;
var<workgroup> partial: array<f32, WG>;
var<workgroup> sums: array<vec4<f32>, 2 * WG>;

fn low(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn high(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w));
}

// The product of elements 8 i to 8 i + 7 of the query with theirs.
fn product(i: u32, words: vec4<u32>) -> f32 {
    return dot(query[2u * i], low(words)) + dot(query[2u * i + 1u], high(words));
}

// The largest `value` of the workgroup, whatever the size of a subgroup.
fn workgroup_max(lane: u32, subgroup_lane: u32, subgroup_size: u32, value: f32) -> f32 {
    partial[lane] = subgroupMax(value);
    workgroupBarrier();
    var highest = LOWEST;
    for (var i = subgroup_lane; i < WG; i += subgroup_size) {
        highest = max(highest, partial[i]);
    }
    return subgroupMax(highest);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
    @builtin(subgroup_size) subgroup_size: u32,
) {
    let head = group.x;
    let end = select(0u, start[0] + 1u, head < params.heads);
    let width = params.head_dim / 8u;
    let base = head / (params.heads / params.kv_heads) * params.capacity * width;
    if (lane < 2u * width) {
        query[lane] = q[head * 2u * width + lane] * params.scale;
    }
    workgroupBarrier();
    // Strands of `width` lanes add up every strands-th position, 8 elements of it a lane.
    let strands = WG / width;
    let column = lane % width;
    var highest = LOWEST;
    var total = 0.0;
    var sum_low = vec4<f32>();
    var sum_high = vec4<f32>();
    for (var first = 0u; first < end; first += WG) {
        let position = first + lane;
        var score = 0.0;
        let row = base + min(position, end - 1u) * width;
        for (var i = 0u; i < width; i += 4u) {
            let k0 = k[row + i];
            let k1 = k[row + i + 1u];
            let k2 = k[row + i + 2u];
            let k3 = k[row + i + 3u];
            score += product(i, k0) + product(i + 1u, k1) + product(i + 2u, k2) + product(i + 3u, k3);
        }
        score = select(LOWEST, score, position < end);
        let new_highest = max(highest, workgroup_max(lane, subgroup_lane, subgroup_size, score));
        weights[lane] = select(0.0, exp(score - new_highest), position < end);
        let rescale = exp(highest - new_highest);
        highest = new_highest;
        workgroupBarrier();
        total *= rescale;
        sum_low *= rescale;
        sum_high *= rescale;
        // Lanes of no strand take no position.
        let count = select(0u, min(WG, end - first), lane < strands * width);
        for (var i = lane / width; i < count; i += 4u * strands) {
            let i1 = min(i + strands, count - 1u);
            let i2 = min(i + 2u * strands, count - 1u);
            let i3 = min(i + 3u * strands, count - 1u);
            let at = base + first * width + column;
            let v0 = v[at + i * width];
            let v1 = v[at + i1 * width];
            let v2 = v[at + i2 * width];
            let v3 = v[at + i3 * width];
            let w0 = weights[i];
            let w1 = select(0.0, weights[i1], i + strands < count);
            let w2 = select(0.0, weights[i2], i + 2u * strands < count);
            let w3 = select(0.0, weights[i3], i + 3u * strands < count);
            total += w0 + w1 + w2 + w3;
            sum_low += w0 * low(v0) + w1 * low(v1) + w2 * low(v2) + w3 * low(v3);
            sum_high += w0 * high(v0) + w1 * high(v1) + w2 * high(v2) + w3 * high(v3);
        }
        workgroupBarrier(); // before weights and partial are written again
    }
    partial[lane] = total;
    sums[2u * lane] = sum_low;
    sums[2u * lane + 1u] = sum_high;
    for (var reach = strands / 2u; reach > 0u; reach /= 2u) {
        workgroupBarrier();
        if (lane < reach * width) {
            partial[lane] += partial[lane + reach * width];
            sums[2u * lane] += sums[2u * (lane + reach * width)];
            sums[2u * lane + 1u] += sums[2u * (lane + reach * width) + 1u];
        }
    }
    workgroupBarrier();
    if (lane < 2u * width && head < params.heads) {
        out[head * 2u * width + lane] = sums[lane] / partial[0];
    }
}
