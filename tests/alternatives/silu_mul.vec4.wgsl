//! op = "silu_mul"
//! workgroups = ["ceil_div(n, 128)"]
//! requires = ["n % 4 == 0"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (n) = silu(gate) * up, gate, up (n); an invocation four elements

alias elem = f32;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> gate: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> up: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<elem>>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i < params.n / 4u) {
        let half = 0.5 * vec4<f32>(gate[i]);
        out[i] = vec4<elem>((half + half * tanh(clamp(half, vec4<f32>(-20.0), vec4<f32>(20.0)))) * vec4<f32>(up[i]));
    }
}
