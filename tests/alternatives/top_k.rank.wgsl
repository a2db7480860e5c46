//! op = "top_k"
//! workgroups = ["ceil_div(cols, 64)", "min(rows, 500)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// values, indices (rows, k) = the k largest of each row of x (rows, cols) in falling order, equal ones by rising index;
// an invocation an element, which counts those before it

alias elem = f32;

struct Params { rows: u32, cols: u32, k: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> values: array<elem>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    if (id.x >= params.cols) {
        return;
    }
    for (var row = id.y; row < params.rows; row += groups.y) {
        let value = x[row * params.cols + id.x];
        var rank = 0u;
        for (var c = 0u; c < params.cols; c++) {
            let other = x[row * params.cols + c];
            rank += u32(other > value || (other == value && c < id.x));
        }
        if (rank < params.k) {
            values[row * params.k + rank] = value;
            indices[row * params.k + rank] = i32(id.x);
        }
    }
}
