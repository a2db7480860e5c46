//! op = "argmax"
//! requires = ["rows <= 65535"]
//! prefer = ["cols > 16384"]
//! guarded = true
//! [[pass]]
//! entry = "scan"
//! workgroups = ["SPLIT", "rows"]
//! [[pass]]
//! entry = "join"
//! workgroups = ["rows"]
//! [scratch]
//! values = {dtype = "f32", shape = ["rows", "SPLIT"]}
//! indices = {dtype = "u32", shape = ["rows", "SPLIT"]}
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [256, 64]
//! SPLIT = [64, 256, 16]
// out (rows) = the index of the largest element of each row of x (rows, cols), the lowest of several; SPLIT workgroups
// a row, then one

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
@group(0) @binding(1) var<storage, read_write> values: array<f32>;
@group(0) @binding(2) var<storage, read_write> indices: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 256;
override SPLIT: u32 = 64;

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
fn scan(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y * params.cols;
    // Each lane starts from an element of the row, so no value stands for "none".
    let first = min(group.x * WG + lane, params.cols - 1u);
    var best = Best(f32(x[row + first]), first);
    for (var c = first + SPLIT * WG; c < params.cols; c += SPLIT * WG) {
        best = better(best, Best(f32(x[row + c]), c));
    }
    best = workgroup_best(lane, best);
    if (lane == 0u && group.x < SPLIT && group.y < params.rows) {
        values[group.y * SPLIT + group.x] = best.value;
        indices[group.y * SPLIT + group.x] = best.index;
    }
}

@compute @workgroup_size(WG)
fn join(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * SPLIT;
    let start = first + lane % SPLIT;
    var best = Best(values[start], indices[start]);
    for (var i = lane + WG; i < SPLIT; i += WG) {
        best = better(best, Best(values[first + i], indices[first + i]));
    }
    best = workgroup_best(lane, best);
    if (lane == 0u && group.x < params.rows) {
        out[group.x] = i32(best.index);
    }
}
