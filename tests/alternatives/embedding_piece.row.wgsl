//! op = "embedding_piece"
//! workgroups = ["min(rows, 200)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = table[ids] where the id lies in weight (vocab, cols), the table's rows from first on; ids (rows);
// a workgroup a row at a time

alias elem = f32;

struct Params { rows: u32, cols: u32, vocab: u32, first: u32 }

@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    for (var row = group.x; row < params.rows; row += groups.x) {
        let own = ids[row] - params.first;
        if (own >= params.vocab) { // also one below first: the difference wraps
            continue;
        }
        for (var c = lane; c < params.cols; c += 64u) {
            out[row * params.cols + c] = weight[own * params.cols + c];
        }
    }
}
