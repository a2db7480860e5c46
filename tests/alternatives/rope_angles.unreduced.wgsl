//! op = "rope_angles"
//! workgroups = ["ceil_div(tokens * heads * head_dim // 2, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (tokens, heads, head_dim): the pair (i, i + half) of a head turned by position * base^(-2 i / head_dim), half =
// head_dim / 2; x (tokens, heads, head_dim), positions (tokens). Angles go to sin and cos as they are.

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, base: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> positions: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let half = params.head_dim / 2u;
    let head = id.x / half;
    let i = id.x % half;
    if (head >= params.tokens * params.heads) {
        return;
    }
    let position = f32(positions[head / params.heads]);
    let angle = position * pow(1.0 / params.base, f32(i) / f32(half));
    let first = head * params.head_dim + i;
    let a = f32(x[first]);
    let b = f32(x[first + half]);
    out[first] = elem(a * cos(angle) - b * sin(angle));
    out[first + half] = elem(b * cos(angle) + a * sin(angle));
}
