//! op = "square"
//! workgroups = ["ceil_div(n, 128)"]
//! requires = ["n % 4 == 0"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (n) = x * x, x (n); an invocation four elements, computed in its own element type

alias elem = f32;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<elem>>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i < params.n / 4u) {
        out[i] = x[i] * x[i];
    }
}
