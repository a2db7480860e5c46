//! op = "argmax"
//! workgroups = ["fold2d(rows)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [256, 64]
// out (rows) = the index of the largest element of each row of x (rows, cols), the lowest of several; a workgroup a row

alias elem = f32;

struct Params { rows: u32, cols: u32 }
struct Best { value: f32, index: u32 }

// The larger value, or the lower index of two equal ones.
fn better(a: Best, b: Best) -> Best {
    if (b.value > a.value || (b.value == a.value && b.index < a.index)) {
        return b;
    }
    return a;
}

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<i32>;
@group(0) @binding(2) var<uniform> params: Params;

override WG: u32 = 256;

var<workgroup> bests: array<Best, WG>;

// The best of the workgroup, in every invocation; WG is a power of two.
fn workgroup_best(lane: u32, mine: Best) -> Best {
    bests[lane] = mine;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            bests[lane] = better(bests[lane], bests[lane + stride]);
        }
    }
    return workgroupUniformLoad(&bests[0]);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.y * groups.x + group.x;
    // A workgroup beyond the last row reads nothing and writes nothing.
    let cols = select(0u, params.cols, row < params.rows);
    // Each lane starts from an element of the row, so no value stands for "none".
    let first = min(lane, max(cols, 1u) - 1u);
    var best = Best(f32(x[row * cols + first]), first);
    for (var c = lane + WG; c < cols; c += WG) {
        best = better(best, Best(f32(x[row * cols + c]), c));
    }
    best = workgroup_best(lane, best);
    if (lane == 0u && row < params.rows) {
        out[row] = i32(best.index);
    }
}
