//! op = "sum"
//! workgroups = ["rows"]
//! requires = ["rows <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows) = the sum of each row of x (rows, cols); a workgroup a row, by a tree of neighbours

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

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
    var sum = 0.0;
    for (var c = lane; c < cols; c += WG) {
        sum += f32(x[first + c]);
    }
    sum = workgroup_sum(lane, sum);
    if (lane == 0u && row < params.rows) {
        out[row] = elem(sum);
    }
}
