//! op = "kv_cache_write"
//! workgroups = ["ceil_div(heads, 8)", "ceil_div(tokens, 4)"]
//! requires = ["head_dim % 2 == 0"]
//! guarded = true
//! [storage]
//! cache = "f16x2"
// cache (heads, capacity, head_dim) [h, start + t] = x (tokens, heads, head_dim) [t, h]; two halves a word; an
// invocation a head of a token, from its end

struct Params { tokens: u32, heads: u32, head_dim: u32, capacity: u32, start: u32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> cache: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(8, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.heads || id.y >= params.tokens) {
        return;
    }
    let from_row = (id.y * params.heads + id.x) * params.head_dim;
    let to_row = (id.x * params.capacity + params.start + id.y) * (params.head_dim / 2u);
    for (var w = params.head_dim / 2u; w > 0u; w--) {
        let high = x[from_row + 2u * w - 1u];
        let low = x[from_row + 2u * w - 2u];
        cache[to_row + w - 1u] = pack2x16float(vec2<f32>(low, high));
    }
}
