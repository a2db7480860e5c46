//! op = "rope_angles"
//! workgroups = ["fold2d(ceil_div(tokens * heads * head_dim, WG))"]
//! requires = ["head_dim % 2 == 0"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [128, 64]
// out (tokens, heads, head_dim): the pair (i, i + half) of a head turned by position * base^(-2 i / head_dim),
// half = head_dim / 2; x (tokens, heads, head_dim), positions (tokens)

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, base: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> positions: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 128;

// 2 pi = TURN_HIGH + TURN_LOW; TURN_HIGH has so few bits that its product with a small whole number is exact.
const TURN_HIGH = 6.28125;
const TURN_LOW = 0.0019353071795864769;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i >= params.tokens * params.heads * params.head_dim) {
        return;
    }
    let half = params.head_dim / 2u;
    let d = i % params.head_dim;
    let token = i / (params.head_dim * params.heads);
    let angle = f32(positions[token]) * pow(params.base, -2.0 * f32(d % half) / f32(params.head_dim));
    // WGSL promises sin and cos on [-pi, pi] only.
    let turns = round(angle / (TURN_HIGH + TURN_LOW));
    let reduced = (angle - turns * TURN_HIGH) - turns * TURN_LOW;
    let is_first = d < half;
    let partner = f32(x[select(i - half, i + half, is_first)]);
    out[i] = elem(f32(x[i]) * cos(reduced) + select(partner, -partner, is_first) * sin(reduced));
}
