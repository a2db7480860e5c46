//! op = "rope"
//! workgroups = ["heads", "tokens"]
//! requires = ["heads <= 65535", "tokens <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (tokens, heads, head_dim) = x, its first 2 half turned by row positions[token] of cos and sin (capacity, half),
// half-split; a workgroup a head, which turns pairs by matrices

alias elem = f32;

struct Params { tokens: u32, heads: u32, head_dim: u32, half: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> cos: array<elem>;
@group(0) @binding(2) var<storage, read> sin: array<elem>;
@group(0) @binding(3) var<storage, read> positions: array<i32>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    if (group.x >= params.heads || group.y >= params.tokens) {
        return;
    }
    let first = (group.y * params.heads + group.x) * params.head_dim;
    let row = u32(positions[group.y]) * params.half;
    for (var i = lane; i < params.half; i += 32u) {
        let c = f32(cos[row + i]);
        let s = f32(sin[row + i]);
        let pair = mat2x2<f32>(c, s, -s, c) * vec2<f32>(f32(x[first + i]), f32(x[first + params.half + i]));
        out[first + i] = elem(pair.x);
        out[first + params.half + i] = elem(pair.y);
    }
    for (var d = 2u * params.half + lane; d < params.head_dim; d += 32u) {
        out[first + d] = x[first + d];
    }
}
