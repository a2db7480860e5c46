//! op = "softmax"
//! workgroups = ["rows"]
//! requires = ["rows <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = softmax of each row of x (rows, cols); a workgroup a row, each lane's maximum and sum joined by a
// tree

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> params: Params;

const WG = 64u;

var<workgroup> partial: array<vec2<f32>, WG>; // maximum, sum

fn joined(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let highest = max(a.x, b.x);
    return vec2<f32>(highest, a.y * exp(a.x - highest) + b.y * exp(b.x - highest));
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
    var own = vec2<f32>(-3.4028234663852886e38, 0.0);
    for (var c = lane; c < cols; c += WG) {
        own = joined(own, vec2<f32>(f32(x[first + c]), 1.0));
    }
    partial[lane] = own;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            partial[lane] = joined(partial[lane], partial[lane + stride]);
        }
    }
    let whole = workgroupUniformLoad(&partial[0]);
    let scale = 1.0 / whole.y;
    for (var c = lane; c < cols; c += WG) {
        out[first + c] = elem(exp(f32(x[first + c]) - whole.x) * scale);
    }
}
