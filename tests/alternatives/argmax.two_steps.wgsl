//! op = "argmax"
//! workgroups = ["rows"]
//! requires = ["rows <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows) = the index of the largest element of each row of x (rows, cols), the lowest of several;  a workgroup a
// row: the maximum, then the lowest index that has it, by an atomic

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<i32>;
@group(0) @binding(2) var<uniform> params: Params;

const WG = 64u;

var<workgroup> partial: array<f32, WG>;
var<workgroup> lowest: atomic<u32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x;
    // A workgroup beyond the last row reads nothing and writes nothing.
    let cols = select(0u, params.cols, row < params.rows);
    let first = row * params.cols;
    var highest = -3.4028234663852886e38;
    for (var c = lane; c < cols; c += WG) {
        highest = max(highest, f32(x[first + c]));
    }
    partial[lane] = highest;
    if (lane == 0u) {
        atomicStore(&lowest, cols);
    }
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            partial[lane] = max(partial[lane], partial[lane + stride]);
        }
    }
    highest = workgroupUniformLoad(&partial[0]);
    for (var c = lane; c < cols; c += WG) {
        if (f32(x[first + c]) == highest) {
            atomicMin(&lowest, c);
        }
    }
    workgroupBarrier();
    if (lane == 0u && row < params.rows) {
        out[row] = i32(atomicLoad(&lowest));
    }
}
