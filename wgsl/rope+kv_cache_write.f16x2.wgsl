//! op = "rope+kv_cache_write"
//! workgroups = ["fold2d(ceil_div(tokens * (heads + 2 * kv_heads) * head_dim // 2, WG))"]
//! requires = ["head_dim % 2 == 0"]
//! guarded = true
//! [storage]
//! k_cache = "f16x2"
//! v_cache = "f16x2"
//! [tune]
//! WG = [128, 64]
// As rope+kv_cache_write.wgsl with caches of two halves a word: an invocation makes elements 2 i and 2 i + 1 of a head.

struct Params { tokens: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32 }

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> cos: array<f32>;
@group(0) @binding(2) var<storage, read> sin: array<f32>;
@group(0) @binding(3) var<storage, read> start: array<u32>;
@group(0) @binding(4) var<storage, read_write> q: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(6) var<storage, read_write> v_cache: array<u32>;
@group(0) @binding(7) var<uniform> params: Params;

override WG: u32 = 128;

// Element i of qkv, which is element d of a query or key head, rotated by the angles of `position`.
fn rotated(i: u32, d: u32, position: u32) -> f32 {
    if (d >= 2u * params.half) {
        return qkv[i];
    }
    let angle = position * params.half + d % params.half;
    let is_first = d < params.half;
    let partner = qkv[select(i - params.half, i + params.half, is_first)];
    return qkv[i] * cos[angle] + select(partner, -partner, is_first) * sin[angle];
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let pair = id.y * groups.x * WG + id.x;
    let all_heads = params.heads + 2u * params.kv_heads;
    let pairs = params.head_dim / 2u;
    if (pair >= params.tokens * all_heads * pairs) {
        return;
    }
    let i = 2u * pair;
    let d = i % params.head_dim;
    let head = pair / pairs % all_heads;
    let token = pair / (pairs * all_heads);
    let position = start[0] + token;
    if (head >= params.heads + params.kv_heads) {
        let slot = (head - params.heads - params.kv_heads) * params.capacity + position;
        v_cache[slot * pairs + d / 2u] = pack2x16float(vec2<f32>(qkv[i], qkv[i + 1u]));
        return;
    }
    let value = vec2<f32>(rotated(i, d, position), rotated(i + 1u, d + 1u, position));
    if (head < params.heads) {
        q[(token * params.heads + head) * pairs + d / 2u] = value;
    } else {
        k_cache[((head - params.heads) * params.capacity + position) * pairs + d / 2u] = pack2x16float(value);
    }
}
