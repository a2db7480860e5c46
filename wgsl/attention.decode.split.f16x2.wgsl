//! op = "attention"
//! requires = ["tokens == 1", "head_dim % 8 == 0", "head_dim <= 256"]
//! prefer = ["capacity > 512"]
//! guarded = true
//! [[pass]]
//! entry = "attend"
//! workgroups = ["heads", "SPLIT"]
//! [[pass]]
//! entry = "join"
//! workgroups = ["heads"]
//! [scratch]
//! outputs = {dtype = "f32", shape = ["heads", "SPLIT", "head_dim"]}
//! stats = {dtype = "f32", shape = ["heads", "SPLIT", 2]}
//! [storage]
//! k = "f16x2"
//! v = "f16x2"
//! [tune]
//! WG = [128, 64, 256]
//! SPLIT = [8, 16, 4]
// out (1, heads, head_dim) = softmax(scale q k^T) v over positions 0 to start, q (1, heads, head_dim), k and v
// (kv_heads, capacity, head_dim; two halves a word); head h reads h / group. One query: a workgroup a head and
// share of the positions, then one a head; softmax online (Milakov and Gimelshein 2018), no array grows with the cache.

struct Params { heads: u32, kv_heads: u32, head_dim: u32, capacity: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> start: array<u32>;
@group(0) @binding(4) var<storage, read_write> outputs: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(7) var<uniform> params: Params;

override WG: u32 = 128;
override SPLIT: u32 = 8;
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

// The largest `value` of the workgroup; WG is a power of two.
fn workgroup_max(lane: u32, value: f32) -> f32 {
    partial[lane] = value;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            partial[lane] = max(partial[lane], partial[lane + stride]);
        }
    }
    return workgroupUniformLoad(&partial[0]);
}

@compute @workgroup_size(WG)
fn attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    // This workgroup's share of the positions.
    let seen = start[0] + 1u;
    let share = (seen + SPLIT - 1u) / SPLIT;
    let begin = min(group.y * share, seen);
    let end = select(begin, min(begin + share, seen), head < params.heads);
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
    for (var first = begin; first < end; first += WG) {
        let position = first + lane;
        var score = LOWEST;
        if (position < end) {
            var products = vec4<f32>();
            for (var i = 0u; i < width; i++) {
                let words = k[base + position * width + i];
                products = fma(query[2u * i], low(words), products);
                products = fma(query[2u * i + 1u], high(words), products);
            }
            score = dot(products, vec4<f32>(1.0));
        }
        let new_highest = max(highest, workgroup_max(lane, score));
        weights[lane] = select(0.0, exp(score - new_highest), position < end);
        let rescale = exp(highest - new_highest);
        highest = new_highest;
        workgroupBarrier();
        total *= rescale;
        sum_low *= rescale;
        sum_high *= rescale;
        let count = select(0u, min(WG, end - first), lane < strands * width);
        for (var i = lane / width; i < count; i += strands) {
            total += weights[i];
            let words = v[base + (first + i) * width + column];
            sum_low = fma(vec4<f32>(weights[i]), low(words), sum_low);
            sum_high = fma(vec4<f32>(weights[i]), high(words), sum_high);
        }
    }
    partial[lane] = total;
    sums[2u * lane] = sum_low;
    sums[2u * lane + 1u] = sum_high;
    workgroupBarrier();
    if (lane < 2u * width && head < params.heads && group.y < SPLIT) {
        total = 0.0;
        var weighted = vec4<f32>();
        for (var i = 0u; i < strands; i++) {
            total += partial[i * width];
            weighted += sums[2u * i * width + lane];
        }
        let slot = head * SPLIT + group.y;
        outputs[slot * 2u * width + lane] = weighted;
        stats[slot] = vec2<f32>(highest, total);
    }
}

@compute @workgroup_size(WG)
fn join(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let width = params.head_dim / 4u;
    if (lane >= width || head >= params.heads) {
        return;
    }
    var highest = LOWEST;
    for (var i = 0u; i < SPLIT; i++) {
        highest = max(highest, stats[head * SPLIT + i].x);
    }
    var total = 0.0;
    var sum = vec4<f32>();
    for (var i = 0u; i < SPLIT; i++) {
        let slot = head * SPLIT + i;
        let weight = exp(stats[slot].x - highest);
        total = fma(weight, stats[slot].y, total);
        sum = fma(vec4<f32>(weight), outputs[slot * width + lane], sum);
    }
    out[head * width + lane] = sum / total;
}
