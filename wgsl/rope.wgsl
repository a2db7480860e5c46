//! op = "rope"
//! workgroups = ["fold2d(ceil_div(tokens * heads * head_dim, WG))"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [128, 64]
// out (tokens, heads, head_dim): with c and s (half) the row of cos and sin (capacity, half) at the token's position,
// a' = a c - b s and b' = b c + a s, where a is the first half of a head, b the second; beyond 2 half x is copied

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, half: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> cos: array<elem>;
@group(0) @binding(2) var<storage, read> sin: array<elem>;
@group(0) @binding(3) var<storage, read> positions: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

override WG: u32 = 128;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i >= params.tokens * params.heads * params.head_dim) {
        return;
    }
    let d = i % params.head_dim;
    if (d >= 2u * params.half) {
        out[i] = x[i];
        return;
    }
    let token = i / (params.head_dim * params.heads);
    let angle = positions[token] * params.half + d % params.half;
    let is_first = d < params.half;
    let partner = f32(x[select(i - params.half, i + params.half, is_first)]);
    out[i] = elem(f32(x[i]) * f32(cos[angle]) + select(partner, -partner, is_first) * f32(sin[angle]));
}
