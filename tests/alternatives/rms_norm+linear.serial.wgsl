//! op = "rms_norm+linear"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! optional = ["bias"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = (x / sqrt(mean(x^2) + eps) * norm_weight) @ weight^T + bias, x (rows, k), weight (n, k); an
// invocation an output, from the bias on

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> norm_weight: array<elem>;
@group(0) @binding(2) var<storage, read> weight: array<elem>;
@group(0) @binding(3) var<storage, read> bias: array<elem>; //? bias
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

// What a row's norm multiplies its elements with.
fn scale_of(row: u32) -> f32 {
    var squares = 0.0;
    for (var i = 0u; i < params.k; i++) {
        let value = f32(x[row * params.k + i]);
        squares += value * value;
    }
    return 1.0 / sqrt(squares / f32(params.k) + params.eps);
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    let scale = scale_of(row);
    var sum = 0.0;
    sum = f32(bias[output]); //? bias
    for (var i = 0u; i < params.k; i++) {
        let normal = f32(x[row * params.k + i]) * (scale * f32(norm_weight[i]));
        sum = fma(normal, f32(weight[output * params.k + i]), sum);
    }
    out[row * params.n + output] = elem(sum);
}
