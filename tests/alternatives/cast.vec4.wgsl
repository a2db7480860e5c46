//! op = "cast"
//! workgroups = ["ceil_div(n, 128)"]
//! requires = ["n % 4 == 0"]
//! guarded = true
//! [types]
//! from_elem = ["f32", "f16"]
//! to_elem = ["f16", "f32"]
// out (n) = x (n) in another element type; an invocation four elements

alias from_elem = f32;
alias to_elem = f16;

struct Params { n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<from_elem>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<to_elem>>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.n / 4u) {
        out[id.x] = vec4<to_elem>(x[id.x]);
    }
}
