//! op = "rms_norm"
//! workgroups = ["rows"]
//! requires = ["rows <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = x / sqrt(mean(x^2) + eps) * weight, x (rows, cols), weight (cols); a workgroup a row, whose lanes
// have neighbouring elements and whose tree joins neighbours

alias elem = f32;

struct Params { rows: u32, cols: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

const WG = 64u;

var<workgroup> partial: array<f32, WG>;

// The sum of `value` over the workgroup, neighbours first.
fn workgroup_sum(lane: u32, value: f32) -> f32 {
    partial[lane] = value;
    for (var stride = 1u; stride < WG; stride *= 2u) {
        workgroupBarrier();
        if (lane % (2u * stride) == 0u) {
            partial[lane] += partial[lane + stride];
        }
    }
    return workgroupUniformLoad(&partial[0]);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x;
    // A workgroup beyond the last row reads nothing and writes nothing.
    let cols = select(0u, params.cols, row < params.rows);
    let first = row * params.cols;
    let share = (cols + WG - 1u) / WG;
    let begin = min(lane * share, cols);
    let end = min(begin + share, cols);
    var squares = 0.0;
    for (var c = begin; c < end; c++) {
        squares = fma(f32(x[first + c]), f32(x[first + c]), squares);
    }
    let mean = workgroup_sum(lane, squares) * (1.0 / f32(params.cols));
    let scale = 1.0 / sqrt(mean + params.eps);
    for (var c = begin; c < end; c++) {
        out[first + c] = elem(f32(x[first + c]) * (scale * f32(weight[c])));
    }
}
