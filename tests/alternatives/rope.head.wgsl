//! op = "rope"
//! workgroups = ["ceil_div(tokens * heads, 32)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (tokens, heads, head_dim) = x, its first 2 half turned by row positions[token] of cos and sin (capacity, half),
// half-split; an invocation a head, from its end

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, half: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> cos: array<elem>;
@group(0) @binding(2) var<storage, read> sin: array<elem>;
@group(0) @binding(3) var<storage, read> positions: array<i32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x;
    if (head >= params.tokens * params.heads) {
        return;
    }
    let first = head * params.head_dim;
    let row = u32(positions[head / params.heads]) * params.half;
    for (var d = params.head_dim; d > 2u * params.half; d--) {
        out[first + d - 1u] = x[first + d - 1u];
    }
    for (var i = params.half; i > 0u; i--) {
        let pair = vec2<f32>(f32(x[first + i - 1u]), f32(x[first + params.half + i - 1u]));
        let turn = vec2<f32>(f32(cos[row + i - 1u]), f32(sin[row + i - 1u]));
        out[first + i - 1u] = elem(dot(pair, vec2<f32>(turn.x, -turn.y)));
        out[first + params.half + i - 1u] = elem(dot(pair, turn.yx));
    }
}
