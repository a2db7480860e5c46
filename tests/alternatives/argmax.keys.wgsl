//! op = "argmax"
//! workgroups = ["rows"]
//! requires = ["rows <= 65535"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows) = the index of the largest element of each row of x (rows, cols), the lowest of several;  a workgroup a
// row: floats as integers in the same order, so that integers are compared

alias elem = f32;

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<i32>;
@group(0) @binding(2) var<uniform> params: Params;

const WG = 64u;

var<workgroup> partial: array<vec2<u32>, WG>; // key, index

// An integer for each float, larger for a larger one; both zeros are one.
fn key(value: f32) -> u32 {
    let bits = bitcast<u32>(select(value, 0.0, value == 0.0));
    return select(bits | 0x80000000u, ~bits, bits >> 31u == 1u);
}

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, b.x > a.x || (b.x == a.x && b.y < a.y));
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
    var best = vec2<u32>(0u, 0xffffffffu);
    for (var c = lane; c < cols; c += WG) {
        best = better(best, vec2<u32>(key(f32(x[first + c])), c));
    }
    partial[lane] = best;
    for (var stride = 1u; stride < WG; stride *= 2u) {
        workgroupBarrier();
        if (lane % (2u * stride) == 0u) {
            partial[lane] = better(partial[lane], partial[lane + stride]);
        }
    }
    if (lane == 0u && row < params.rows) {
        out[row] = i32(partial[0].y);
    }
}
