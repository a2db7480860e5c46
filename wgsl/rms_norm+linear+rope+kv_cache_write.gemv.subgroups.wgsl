//! op = "rms_norm+linear+rope+kv_cache_write"
//! workgroups = ["(heads + 2 * kv_heads) * half", "tokens"]
//! requires = ["k % 4 == 0", "head_dim == 2 * half", "tokens <= 65535"]
//! prefer = ["tokens <= 4"]
//! optional = ["bias"]
//! guarded = true
//! [tune]
//! WG = [128, 32, 256, 8]
//! [software]
//! WG = 8
// qkv (tokens, heads + 2 kv_heads, head_dim) = (x / sqrt(mean(x^2) + eps) * norm_weight) @ weight^T + bias,
// x (tokens, k). q (tokens, heads, head_dim) takes the queries, kv_cache (2: k, v; kv_heads, capacity, head_dim)
// the keys and values at start + t, start on the device; queries and keys rotated half-split by
// rope_table (2: cos, sin; capacity, half) at start + t. A workgroup makes element i of a head and its partner
// i + half, k split over its WG lanes.

enable subgroups;

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

// The sum over all lanes. A subgroup's sum stands in the slot of its first lane, zeros in the others' slots, so nothing
// depends on how lanes are grouped.
fn total_of(first: u32, step: u32) -> vec3<f32> {
    var total = vec3<f32>();
    for (var i = first; i < WG; i += step) {
        total += partial[i];
    }
    return subgroupAdd(total);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
    @builtin(subgroup_size) subgroup_size: u32,
) {
    let head = group.x / params.half;
    let i = group.x % params.half;
    let token = group.y;
    let width = params.k / 4u;
    let first = head * params.head_dim + i;
    let second = first + params.half;
    // What the end needs is read ahead, so that its way from memory hides behind the products.
    let position = start[0] + token;
    let angle = position * params.half + i;
    let cosine = rope_table[angle];
    let sine = rope_table[params.capacity * params.half + angle];
    let offset = vec2<f32>(bias[first], bias[second]); //? bias
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
    let sums = subgroupAdd(vec3<f32>(dot(firsts, ONES), dot(seconds, ONES), dot(squares, ONES)));
    partial[lane] = select(vec3<f32>(), sums, subgroup_lane == 0u);
    workgroupBarrier();
    let total = total_of(subgroup_lane, subgroup_size);
    if (lane > 0u || head >= params.heads + 2u * params.kv_heads || token >= params.tokens) {
        return;
    }
    var value = total.xy * inverseSqrt(total.z / f32(params.k) + params.eps);
    value += offset; //? bias
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
