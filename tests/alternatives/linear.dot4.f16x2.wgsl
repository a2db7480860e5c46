//! op = "linear"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! requires = ["k % 4 == 0"]
//! guarded = true
//! [storage]
//! weight = "f16x2"
// out (rows, n) = x (rows, k) @ weight (n, k)^T, weight two halves a word; an invocation an output, by dot products of
// four

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < params.k / 4u; i++) {
        let words = weight[output * (params.k / 4u) + i];
        sum += dot(x[row * (params.k / 4u) + i], vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)));
    }
    out[row * params.n + output] = sum;
}
