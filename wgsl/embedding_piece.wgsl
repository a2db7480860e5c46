//! op = "embedding_piece"
//! workgroups = ["fold2d(ceil_div(rows * cols, WG))"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
//! [tune]
//! WG = [256, 64]
// out (rows, cols) = table[ids] where the id lies in weight (vocab, cols), the table's rows from first on; ids (rows)

alias elem = f32;

struct Params { rows: u32, cols: u32, vocab: u32, first: u32 }

@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i >= params.rows * params.cols) {
        return;
    }
    let row = ids[i / params.cols];
    if (row >= params.first && row - params.first < params.vocab) {
        out[i] = weight[(row - params.first) * params.cols + i % params.cols];
    }
}
