//! op = "attention"
//! workgroups = ["heads"]
//! requires = ["tokens == 1", "head_dim % 8 == 0", "head_dim <= 256"]
//! guarded = true
//! [tune]
//! WG = [256, 128]
//! LANES = [4, 2]
//! [storage]
//! k = "f16x2"
//! v = "f16x2"
// out (1, heads, head_dim) = softmax(scale q k^T) v over positions 0 to start, q (1, heads, head_dim), k and v
// (kv_heads, capacity, head_dim; two halves a word); head h reads h / group. One query: a workgroup a head, softmax
// online (Milakov and Gimelshein 2018). LANES lanes share a position, so that neighbours read what lies side by side;
// loads are written out four at a time, so that they wait for memory together.

struct Params { heads: u32, kv_heads: u32, head_dim: u32, capacity: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> start: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> params: Params;

override WG: u32 = 256;
override LANES: u32 = 4;
const LOWEST = -3.4028234663852886e38;

var<workgroup> query: array<mat2x4<f32>, 32>;
var<workgroup> products: array<f32, WG * LANES>;
var<workgroup> weights: array<f32, WG>;
var<workgroup> sums: array<mat2x4<f32>, WG>;

fn halves(words: vec4<u32>) -> mat2x4<f32> {
    return mat2x4<f32>(
        vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)),
        vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)));
}

fn multiply(a: mat2x4<f32>, words: vec4<u32>) -> f32 {
    let b = halves(words);
    return dot(a[0], b[0]) + dot(a[1], b[1]);
}

// The largest `value` of the workgroup, by way of `weights`; WG is a power of two.
fn workgroup_max(lane: u32, value: f32) -> f32 {
    weights[lane] = value;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            weights[lane] = max(weights[lane], weights[lane + stride]);
        }
    }
    return workgroupUniformLoad(&weights[0]);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let end = select(0u, start[0] + 1u, head < params.heads);
    let width = params.head_dim / 8u;
    let base = head / (params.heads / params.kv_heads) * params.capacity * width;
    if (lane < width) {
        let at = 2u * (head * width + lane);
        query[lane] = mat2x4<f32>(q[at], q[at + 1u]) * params.scale;
    }
    workgroupBarrier();
    let together = WG / LANES; // positions whose scores are formed at a time
    let part = lane % LANES;
    // Strands of `width` lanes add up every strands-th position, 8 elements of it a lane.
    let strands = WG / width;
    let column = lane % width;
    var highest = LOWEST;
    var total = 0.0;
    var sum = mat2x4<f32>();
    for (var first = 0u; first < end; first += WG) {
        let count = min(WG, end - first);
        let row = base + first * width;
        for (var i = lane / LANES; i < count; i += 4u * together) {
            let i1 = i + together;
            let i2 = i + 2u * together;
            let i3 = i + 3u * together;
            let at0 = row + i * width;
            let at1 = row + min(i1, count - 1u) * width;
            let at2 = row + min(i2, count - 1u) * width;
            let at3 = row + min(i3, count - 1u) * width;
            var score0 = 0.0;
            var score1 = 0.0;
            var score2 = 0.0;
            var score3 = 0.0;
            for (var c = part; c < width; c += LANES) {
                let k0 = k[at0 + c];
                let k1 = k[at1 + c];
                let k2 = k[at2 + c];
                let k3 = k[at3 + c];
                let x = query[c];
                score0 += multiply(x, k0);
                score1 += multiply(x, k1);
                score2 += multiply(x, k2);
                score3 += multiply(x, k3);
            }
            products[i * LANES + part] = score0;
            if (i1 < count) {
                products[i1 * LANES + part] = score1;
            }
            if (i2 < count) {
                products[i2 * LANES + part] = score2;
            }
            if (i3 < count) {
                products[i3 * LANES + part] = score3;
            }
        }
        workgroupBarrier();
        var score = LOWEST;
        if (lane < count) {
            score = 0.0;
            for (var p = 0u; p < LANES; p++) {
                score += products[lane * LANES + p];
            }
        }
        let new_highest = max(highest, workgroup_max(lane, score));
        weights[lane] = select(0.0, exp(score - new_highest), lane < count);
        let rescale = exp(highest - new_highest);
        highest = new_highest;
        workgroupBarrier();
        total *= rescale;
        sum = sum * rescale;
        // Lanes of no strand take no position.
        let taken = select(0u, count, lane < strands * width);
        for (var i = lane / width; i < taken; i += 4u * strands) {
            let i1 = min(i + strands, count - 1u);
            let i2 = min(i + 2u * strands, count - 1u);
            let i3 = min(i + 3u * strands, count - 1u);
            let at = row + column;
            let v0 = v[at + i * width];
            let v1 = v[at + i1 * width];
            let v2 = v[at + i2 * width];
            let v3 = v[at + i3 * width];
            let w0 = weights[i];
            let w1 = select(0.0, weights[i1], i + strands < count);
            let w2 = select(0.0, weights[i2], i + 2u * strands < count);
            let w3 = select(0.0, weights[i3], i + 3u * strands < count);
            total += w0 + w1 + w2 + w3;
            sum += w0 * halves(v0) + w1 * halves(v1) + w2 * halves(v2) + w3 * halves(v3);
        }
        workgroupBarrier(); // before weights and products are written again
    }
    weights[lane] = total;
    sums[lane] = sum;
    workgroupBarrier();
    if (lane < width && head < params.heads) {
        total = 0.0;
        sum = mat2x4<f32>();
        for (var i = 0u; i < strands; i++) {
            total += weights[i * width];
            sum += sums[i * width + lane];
        }
        let at = 2u * (head * width + lane);
        out[at] = sum[0] / total;
        out[at + 1u] = sum[1] / total;
    }
}
