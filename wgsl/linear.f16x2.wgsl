//! op = "linear"
//! workgroups = ["fold2d(n)", "rows"]
//! requires = ["rows <= 65535"]
//! optional = ["bias"]
//! guarded = true
//! [storage]
//! weight = "f16x2"
//! [tune]
//! WG = [64, 128]
// out (rows, n) = x (rows, k) @ weight (n, k; two halves a word)^T + bias (n). Any k: a workgroup an output.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 64;

var<workgroup> partial: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let output = group.y * groups.x + group.x;
    let row = group.z;
    // A workgroup beyond the last output reads nothing and writes nothing.
    let live = output < params.n && row < params.rows;
    let k = select(0u, params.k, live);
    var sum = 0.0;
    for (var i = lane; i < k; i += WG) {
        let element = output * params.k + i;
        sum = fma(x[row * params.k + i], unpack2x16float(weight[element / 2u])[element % 2u], sum);
    }
    partial[lane] = sum;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            partial[lane] += partial[lane + stride];
        }
    }
    if (lane == 0u && live) {
        var value = partial[0];
        value += bias[output]; //? bias
        out[row * params.n + output] = value;
    }
}
