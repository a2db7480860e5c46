//! op = "top_k"
//! workgroups = ["fold2d(rows)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [128, 64]
// values, indices (rows, k) = the k largest of each row of x (rows, cols) in falling order, equal ones by rising index.
// A workgroup a row looks k times for the best that comes after the last one.

alias elem = f32;

struct Params { rows: u32, cols: u32, k: u32 }
struct Best { value: f32, index: u32 }

const NONE = 0xffffffffu;

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> values: array<elem>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 128;

var<workgroup> bests: array<Best, WG>;

// Whether a comes before b in the result.
fn precedes(a: Best, b: Best) -> bool {
    return a.index != NONE && (b.index == NONE || a.value > b.value || (a.value == b.value && a.index < b.index));
}

// The first of the workgroup, in every invocation; WG is a power of two.
fn workgroup_first(lane: u32, mine: Best) -> Best {
    bests[lane] = mine;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride && precedes(bests[lane + stride], bests[lane])) {
            bests[lane] = bests[lane + stride];
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
    var last = Best(0.0, NONE);
    for (var i = 0u; i < params.k; i++) {
        var best = Best(0.0, NONE);
        for (var c = lane; c < cols; c += WG) {
            let candidate = Best(f32(x[row * cols + c]), c);
            if ((last.index == NONE || precedes(last, candidate)) && precedes(candidate, best)) {
                best = candidate;
            }
        }
        last = workgroup_first(lane, best);
        if (lane == 0u && row < params.rows) {
            values[row * params.k + i] = elem(last.value);
            indices[row * params.k + i] = i32(last.index);
        }
    }
}
