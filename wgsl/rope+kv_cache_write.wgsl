//! op = "rope+kv_cache_write"
//! workgroups = ["fold2d(ceil_div(tokens * (heads + 2 * kv_heads) * head_dim, WG))"]
//! guarded = true
//! [tune]
//! WG = [128, 64]
// qkv (tokens, heads + 2 kv_heads, head_dim) cut into queries, keys and values. Queries and keys are rotated half-split
// by the tables' row start + t; q (tokens, heads, head_dim); k_cache and v_cache (kv_heads, capacity, head_dim) are
// written at start + t. start lies on the device.

struct Params { tokens: u32, heads: u32, kv_heads: u32, head_dim: u32, half: u32, capacity: u32 }

@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> cos: array<f32>;
@group(0) @binding(2) var<storage, read> sin: array<f32>;
@group(0) @binding(3) var<storage, read> start: array<u32>;
@group(0) @binding(4) var<storage, read_write> q: array<f32>;
@group(0) @binding(5) var<storage, read_write> k_cache: array<f32>;
@group(0) @binding(6) var<storage, read_write> v_cache: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;

override WG: u32 = 128;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    let all_heads = params.heads + 2u * params.kv_heads;
    if (i >= params.tokens * all_heads * params.head_dim) {
        return;
    }
    let d = i % params.head_dim;
    let head = i / params.head_dim % all_heads;
    let token = i / (params.head_dim * all_heads);
    let position = start[0] + token;
    var value = qkv[i];
    if (head < params.heads + params.kv_heads && d < 2u * params.half) {
        let angle = position * params.half + d % params.half;
        let is_first = d < params.half;
        let partner = qkv[select(i - params.half, i + params.half, is_first)];
        value = value * cos[angle] + select(partner, -partner, is_first) * sin[angle];
    }
    if (head < params.heads) {
        q[(token * params.heads + head) * params.head_dim + d] = value;
    } else if (head < params.heads + params.kv_heads) {
        k_cache[((head - params.heads) * params.capacity + position) * params.head_dim + d] = value;
    } else {
        let v_head = head - params.heads - params.kv_heads;
        v_cache[(v_head * params.capacity + position) * params.head_dim + d] = value;
    }
}
