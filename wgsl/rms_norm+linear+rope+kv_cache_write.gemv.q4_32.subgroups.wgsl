//! op = "rms_norm+linear+rope+kv_cache_write"
//! workgroups = ["(heads + 2 * kv_heads) * (half // 2)", "tokens"]
//! requires = ["k % 32 == 0", "head_dim == 2 * half", "half % 2 == 0", "tokens <= 65535"]
//! prefer = ["tokens <= 4"]
//! optional = ["bias"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! kv_cache = "f16x2"
//! [tune]
//! WG = [128, 32, 256, 8]
//! [software]
//! WG = 8
// qkv (tokens, heads + 2 kv_heads, head_dim) = (x / sqrt(mean(x^2) + eps) * norm_weight) @ weight^T + bias,
// x (tokens, k). q (tokens, heads, head_dim) takes the queries, kv_cache (2: k, v; kv_heads, capacity, head_dim; two
// halves a word) the keys and values at start + t, start on the device; queries and keys rotated half-split by
// rope_table (2: cos, sin; capacity, half) at start + t. A workgroup makes elements i and i + 1 and their partners
// i + half and i + half + 1, k split over its WG lanes.
// A block of weight is 32 elements of a row: a word of an f16 scale and an f16 zero point, then four of eight nibbles.

enable subgroups;

struct Params { tokens: u32, k: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(4) var<storage, read> rope_table: array<f32>;
@group(0) @binding(5) var<storage, read> start: array<u32>;
@group(0) @binding(6) var<storage, read_write> q: array<f32>;
@group(0) @binding(7) var<storage, read_write> kv_cache: array<u32>;
@group(0) @binding(8) var<uniform> params: Params;

override WG: u32 = 128;
const ONES = vec4<f32>(1.0);

var<workgroup> partial: array<vec4<f32>, WG>; // elements i, i + 1, i + half, i + half + 1
var<workgroup> partial_squares: array<f32, WG>;

fn nibbles(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u));
}

// The product of elements 8 i to 8 i + 7 of weight, counted through all its rows.
fn product_at(i: u32, x_low: vec4<f32>, x_high: vec4<f32>) -> f32 {
    let block = i / 4u * 5u;
    let head = unpack2x16float(weight[block]);
    let word = weight[block + 1u + i % 4u];
    return head.x * (dot(x_low, nibbles(word) - head.y) + dot(x_high, nibbles(word >> 16u) - head.y));
}

// The sum over all lanes. A subgroup's sum stands in the slot of its first lane, zeros in the others' slots, so nothing
// depends on how lanes are grouped.
fn total_of(first: u32, step: u32) -> vec4<f32> {
    var total = vec4<f32>();
    for (var i = first; i < WG; i += step) {
        total += partial[i];
    }
    return subgroupAdd(total);
}

fn total_of_squares(first: u32, step: u32) -> f32 {
    var total = 0.0;
    for (var i = first; i < WG; i += step) {
        total += partial_squares[i];
    }
    return subgroupAdd(total);
}

// The products of row `row` of weight with elements 8 i to 8 i + 7.
fn product(row: u32, i: u32, x_low: vec4<f32>, x_high: vec4<f32>) -> f32 {
    return product_at(row * (params.k / 8u) + i, x_low, x_high);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
    @builtin(subgroup_size) subgroup_size: u32,
) {
    let head = group.x / (params.half / 2u);
    let i = group.x % (params.half / 2u) * 2u;
    let token = group.y;
    let width = params.k / 8u;
    let first = head * params.head_dim + i;
    let second = first + params.half;
    // What the end needs is read ahead, so that its way from memory hides behind the products.
    let position = start[0] + token;
    let angle = position * params.half + i;
    let sines = params.capacity * params.half + angle;
    let cosine = vec2<f32>(rope_table[angle], rope_table[angle + 1u]);
    let sine = vec2<f32>(rope_table[sines], rope_table[sines + 1u]);
    let offset = vec4<f32>(bias[first], bias[first + 1u], bias[second], bias[second + 1u]); //? bias
    var sums = vec4<f32>();
    var squares = vec4<f32>();
    for (var c = lane; c < width; c += WG) {
        let at = 2u * (token * width + c);
        squares = fma(x[at], x[at], fma(x[at + 1u], x[at + 1u], squares));
        let x_low = x[at] * norm_weight[2u * c];
        let x_high = x[at + 1u] * norm_weight[2u * c + 1u];
        sums += vec4<f32>(
            product(first, c, x_low, x_high),
            product(first + 1u, c, x_low, x_high),
            product(second, c, x_low, x_high),
            product(second + 1u, c, x_low, x_high),
        );
    }
    sums = subgroupAdd(sums);
    let square = subgroupAdd(dot(squares, ONES));
    partial[lane] = select(vec4<f32>(), sums, subgroup_lane == 0u);
    partial_squares[lane] = select(0.0, square, subgroup_lane == 0u);
    workgroupBarrier();
    sums = total_of(subgroup_lane, subgroup_size);
    let mean = total_of_squares(subgroup_lane, subgroup_size) / f32(params.k);
    if (lane > 0u || head >= params.heads + 2u * params.kv_heads || token >= params.tokens) {
        return;
    }
    sums *= inverseSqrt(mean + params.eps);
    sums += offset; //? bias
    if (head < params.heads + params.kv_heads) {
        sums = vec4<f32>(sums.xy * cosine - sums.zw * sine, sums.zw * cosine + sums.xy * sine);
    }
    if (head < params.heads) {
        let at = (token * params.heads + head) * params.head_dim + i;
        q[at] = sums.x;
        q[at + 1u] = sums.y;
        q[at + params.half] = sums.z;
        q[at + params.half + 1u] = sums.w;
    } else {
        // Keys' heads, then values' heads, as in the cache.
        let at = (((head - params.heads) * params.capacity + position) * params.head_dim + i) / 2u;
        kv_cache[at] = pack2x16float(sums.xy);
        kv_cache[at + params.half / 2u] = pack2x16float(sums.zw);
    }
}
