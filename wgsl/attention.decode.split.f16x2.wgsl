//! op = "attention"
//! requires = ["head_dim % 8 == 0", "head_dim <= 256", "tokens == 1"]
//! prefer = ["tokens == 1", "capacity > 1024"]
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
//! WG = [256, 128, 64]
//! SPLIT = [8, 4, 16]
//! [software]
//! WG = 64
// out (1, heads, head_dim) = softmax(scale q k^T) v over positions 0 to start, q (1, heads, head_dim), k and v
// (kv_heads, capacity, head_dim; two halves a word); head h reads h / group. One query: a workgroup a head and
// share of the positions, then one a head; softmax online (Milakov and Gimelshein 2018): no array grows with the cache.

struct Params { heads: u32, kv_heads: u32, head_dim: u32, capacity: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> start: array<u32>;
@group(0) @binding(4) var<storage, read_write> outputs: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(7) var<uniform> params: Params;

override WG: u32 = 256;
override SPLIT: u32 = 8;
const LOWEST = -3.4028234663852886e38;

var<workgroup> query: array<mat2x4<f32>, 32>; // zeros beyond head_dim
var<workgroup> weights: array<f32, WG>;
var<workgroup> partial: array<f32, WG>;
var<workgroup> sums: array<mat2x4<f32>, WG>;

fn halves(words: vec4<u32>) -> mat2x4<f32> {
    return mat2x4<f32>(
        vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)),
        vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)));
}

fn multiply(a: mat2x4<f32>, words: vec4<u32>) -> vec4<f32> {
    let b = halves(words);
    return a[0] * b[0] + a[1] * b[1];
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
    if (lane < 32u) {
        let at = head * 2u * width + 2u * min(lane, width - 1u);
        query[lane] = mat2x4<f32>(q[at], q[at + 1u]) * select(0.0, params.scale, lane < width);
    }
    workgroupBarrier();
    // Strands of `width` lanes add up every strands-th four positions, 8 elements of each a lane.
    let strands = WG / width;
    let column = lane % width;
    var highest = LOWEST;
    var total = 0.0;
    var sum = mat2x4<f32>();
    for (var first = begin; first < end; first += WG) {
        let position = first + lane;
        var score = LOWEST;
        if (position < end) {
            var products = vec4<f32>();
            for (var i = 0u; i < width; i += 4u) {
                let at = base + position * width + min(i + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(width - 1u));
                products += multiply(query[i], k[at.x]) + multiply(query[i + 1u], k[at.y]);
                products += multiply(query[i + 2u], k[at.z]) + multiply(query[i + 3u], k[at.w]);
            }
            score = dot(products, vec4<f32>(1.0));
        }
        let new_highest = max(highest, workgroup_max(lane, score));
        weights[lane] = select(0.0, exp(score - new_highest), position < end);
        let rescale = exp(highest - new_highest);
        highest = new_highest;
        workgroupBarrier();
        total *= rescale;
        sum = sum * rescale;
        let count = select(0u, min(WG, end - first), lane < strands * width);
        for (var i = lane / width * 4u; i < count; i += strands * 4u) {
            let weight = vec4<f32>(weights[i], weights[i + 1u], weights[i + 2u], weights[i + 3u]);
            total += dot(weight, vec4<f32>(1.0));
            // Positions beyond the last repeat it, with weights of zero.
            let at = base + min(first + i + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(end - 1u)) * width + column;
            sum += weight.x * halves(v[at.x]) + weight.y * halves(v[at.y]);
            sum += weight.z * halves(v[at.z]) + weight.w * halves(v[at.w]);
        }
    }
    partial[lane] = total;
    sums[lane] = sum;
    workgroupBarrier();
    if (lane < width && head < params.heads && group.y < SPLIT) {
        total = 0.0;
        var weighted = mat2x4<f32>();
        for (var i = 0u; i < strands; i++) {
            total += partial[i * width];
            weighted += sums[i * width + lane];
        }
        let slot = head * SPLIT + group.y;
        outputs[2u * (slot * width + lane)] = weighted[0];
        outputs[2u * (slot * width + lane) + 1u] = weighted[1];
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
