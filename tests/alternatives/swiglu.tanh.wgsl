//! op = "swiglu"
//! workgroups = ["ceil_div(cols, 16)", "ceil_div(min(rows, 900), 4)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = silu(gate) * up by way of tanh, x (rows, 2 * cols) = gate, then up, in each row

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(16, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    if (id.x < params.cols) {
        for (var row = id.y; row < params.rows; row += 4u * groups.y) {
            let gate = f32(x[row * 2u * params.cols + id.x]);
            let up = f32(x[(row * 2u + 1u) * params.cols + id.x]);
            let half = 0.5 * gate;
            out[row * params.cols + id.x] = elem((half + half * tanh(clamp(half, -20.0, 20.0))) * up);
        }
    }
}
