//! op = "rms_norm+linear"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = (x / sqrt(mean(x^2) + eps) * norm_weight) @ weight^T, x (rows, k), weight (n, k); the row's scale
// multiplies the product, both sums in one loop

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> norm_weight: array<elem>;
@group(0) @binding(2) var<storage, read> weight: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var sum = 0.0;
    var squares = 0.0;
    for (var i = params.k; i > 0u; i--) {
        let value = f32(x[row * params.k + i - 1u]);
        squares += value * value;
        sum += value * (f32(norm_weight[i - 1u]) * f32(weight[output * params.k + i - 1u]));
    }
    out[row * params.n + output] = elem(sum * inverseSqrt(squares / f32(params.k) + params.eps));
}
