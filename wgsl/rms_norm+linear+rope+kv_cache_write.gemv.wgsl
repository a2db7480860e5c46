//! op = "rms_norm+linear+rope+kv_cache_write"
//! workgroups = ["(heads + 2 * kv_heads) * half", "tokens"]
//! requires = ["k % 4 == 0", "head_dim == 2 * half", "tokens <= 65535"]
//! prefer = ["tokens <= 4"]
//! optional = ["bias"]
//! guarded = true
//! [tune]
//! WG = [128, 64, 256, 8]
//! [software]
//! WG = 8
// qkv (tokens, heads + 2 kv_heads, head_dim) = (x / sqrt(mean(x^2) + eps) * norm_weight) @ weight^T + bias,
// x (tokens, k). q (tokens, heads, head_dim) takes the queries, kv_cache (2: k, v; kv_heads, capacity, head_dim)
// the keys and values at start + t, start on the device; queries and keys rotated half-split by
// rope_table (2: cos, sin; capacity, half) at start + t. A workgroup makes element i of a head and its partner
// i + half, k split over its WG lanes.

struct Params { tokens: u32, k: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(4) var<storage, read> rope_table: array<f32>;
@group(0) @binding(5) var<storage, read> start: array<u32>;
@group(0) @binding(6) var<storage, read_write> q: array<f32>;
@group(0) @binding(7) var<storage, read_write> kv_cache: array<f32>;
@group(0) @binding(8) var<uniform> params: Params;

override WG: u32 = 128;
const ONES = vec4<f32>(1.0);

var<workgroup> partial: array<vec3<f32>, WG>; // elements i and i + half, and squares

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x / params.half;
    let i = group.x % params.half;
    let token = group.y;
    let width = params.k / 4u;
    let first = head * params.head_dim + i;
    let second = first + params.half;
    // What the end needs is loaded before the sums are waited for.
    let position = start[0] + token;
    let angle = position * params.half + i;
    let sines = params.capacity * params.half + angle;
    let cosine = rope_table[angle];
    let sine = rope_table[sines];
    let offsets = vec2<f32>(bias[first], bias[second]); //? bias
    var firsts = vec4<f32>();
    var seconds = vec4<f32>();
    var squares = vec4<f32>();
    for (var c = lane; c < width; c += WG) {
        let at = token * width + c;
        squares = fma(x[at], x[at], squares);
        let value = x[at] * norm_weight[c];
        firsts = fma(value, weight[first * width + c], firsts);
        seconds = fma(value, weight[second * width + c], seconds);
    }
    partial[lane] = vec3<f32>(dot(firsts, ONES), dot(seconds, ONES), dot(squares, ONES));
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            partial[lane] += partial[lane + stride];
        }
    }
    if (lane > 0u || head >= params.heads + 2u * params.kv_heads || token >= params.tokens) {
        return;
    }
    let total = partial[0];
    var value = total.xy * inverseSqrt(total.z / f32(params.k) + params.eps);
    value += offsets; //? bias
    if (head < params.heads + params.kv_heads) {
        value = vec2<f32>(value.x * cosine - value.y * sine, value.y * cosine + value.x * sine);
    }
    if (head < params.heads) {
        let at = (token * params.heads + head) * params.head_dim + i;
        q[at] = value.x;
        q[at + params.half] = value.y;
    } else {
        // Keys' heads, then values' heads, as in the cache.
        let at = ((head - params.heads) * params.capacity + position) * params.head_dim + i;
        kv_cache[at] = value.x;
        kv_cache[at + params.half] = value.y;
    }
}
