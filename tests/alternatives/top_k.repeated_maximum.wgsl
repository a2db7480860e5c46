//! op = "top_k"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [scratch]
//! taken = {dtype = "u32", shape = ["rows", "cols"]}
//! [types]
//! elem = ["f32", "f16"]
// values, indices (rows, k) = the k largest of each row of x (rows, cols) in falling order, equal ones by rising index;
// an invocation a row, k times the largest of what is not yet taken, which a scratch buffer marks

alias elem = f32;

struct Params { rows: u32, cols: u32, k: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> taken: array<u32>;
@group(0) @binding(2) var<storage, read_write> values: array<elem>;
@group(0) @binding(3) var<storage, read_write> indices: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x;
    if (row >= params.rows) {
        return;
    }
    let first = row * params.cols;
    for (var c = 0u; c < params.cols; c++) {
        taken[first + c] = 0u;
    }
    for (var i = 0u; i < params.k; i++) {
        var best = params.cols;
        for (var c = params.cols; c > 0u; c--) {
            let is_free = taken[first + c - 1u] == 0u;
            if (is_free && (best == params.cols || x[first + c - 1u] >= x[first + min(best, params.cols - 1u)])) {
                best = c - 1u;
            }
        }
        taken[first + best] = 1u;
        values[row * params.k + i] = x[first + best];
        indices[row * params.k + i] = i32(best);
    }
}
