//! op = "cast"
//! workgroups = ["ceil_div(n, 512)"]
//! guarded = true
//! [storage]
//! out = "f16x2"
// out (n, two halves a word) = x (n): four words an invocation, the upper half of the last zero where n is odd

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    for (var word = id.x * 4u; word < min(id.x * 4u + 4u, (params.n + 1u) / 2u); word++) {
        let low = pack2x16float(vec2<f32>(x[2u * word], 0.0));
        var high = 0u;
        if (2u * word + 1u < params.n) {
            high = pack2x16float(vec2<f32>(x[2u * word + 1u], 0.0));
        }
        out[word] = insertBits(low, high, 16u, 16u);
    }
}
