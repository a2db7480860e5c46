//! op = "rope"
//! workgroups = ["ceil_div(tokens * heads * (half + head_dim), 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (tokens, heads, head_dim) = x, its first 2 half turned by row positions[token] of cos and sin (capacity, half),
// half-split; an invocation a pair, and one for each place in which an element beyond the pairs may lie

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, half: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> cos: array<elem>;
@group(0) @binding(2) var<storage, read> sin: array<elem>;
@group(0) @binding(3) var<storage, read> positions: array<i32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let width = params.half + params.head_dim;
    let head = id.x / width;
    let i = id.x % width;
    if (head >= params.tokens * params.heads) {
        return;
    }
    let first = head * params.head_dim;
    if (i < params.half) {
        let row = u32(positions[head / params.heads]) * params.half + i;
        let a = f32(x[first + i]);
        let b = f32(x[first + params.half + i]);
        out[first + i] = elem(a * f32(cos[row]) - b * f32(sin[row]));
        out[first + params.half + i] = elem(a * f32(sin[row]) + b * f32(cos[row]));
    } else if (i - params.half >= 2u * params.half) {
        out[first + i - params.half] = x[first + i - params.half];
    }
}
