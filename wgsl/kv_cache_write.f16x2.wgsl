//! op = "kv_cache_write"
//! workgroups = ["fold2d(ceil_div(tokens * heads * head_dim // 2, WG))"]
//! requires = ["head_dim % 2 == 0"]
//! guarded = true
//! [storage]
//! cache = "f16x2"
//! [tune]
//! WG = [128, 64]
// cache (heads, capacity, head_dim; two halves a word) [h, start + t] = x (tokens, heads, head_dim) [t, h]; start lies
// on the device; an invocation a word

struct Params { tokens: u32, heads: u32, head_dim: u32, capacity: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read> start: array<u32>;
@group(0) @binding(2) var<storage, read_write> cache: array<u32>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 128;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    let words = params.head_dim / 2u;
    if (i < params.tokens * params.heads * words) {
        let head = i / words % params.heads;
        let position = start[0] + i / (words * params.heads);
        cache[(head * params.capacity + position) * words + i % words] = pack2x16float(x[i]);
    }
}
