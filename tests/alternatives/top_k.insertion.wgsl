//! op = "top_k"
//! workgroups = ["ceil_div(rows, 64)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// values, indices (rows, k) = the k largest of each row of x (rows, cols) in falling order, equal ones by rising index;
// an invocation a row, which inserts each element into the list so far

alias elem = f32;

struct Params { rows: u32, cols: u32, k: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> values: array<elem>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.x;
    if (row >= params.rows) {
        return;
    }
    let first = row * params.cols;
    let list = row * params.k;
    for (var c = 0u; c < params.cols; c++) {
        let value = x[first + c];
        var place = min(c, params.k);
        for (; place > 0u && value > values[list + place - 1u]; place--) {
            if (place < params.k) {
                values[list + place] = values[list + place - 1u];
                indices[list + place] = indices[list + place - 1u];
            }
        }
        if (place < params.k) {
            values[list + place] = value;
            indices[list + place] = i32(c);
        }
    }
}
