//! op = "embedding_piece"
//! workgroups = ["ceil_div(cols, 64)"]
//! guarded = true
//! [storage]
//! weight = "f16x2"
// out (rows, cols) = table[ids] where the id lies in weight (vocab, cols), the table's rows from first on; ids (rows),
// two halves a word; an invocation a column, from the last row

struct Params { rows: u32, cols: u32, vocab: u32, first: u32 }

@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.cols) {
        return;
    }
    for (var row = params.rows; row > 0u; row--) {
        let own = ids[row - 1u] - params.first;
        if (own >= params.vocab) {
            continue;
        }
        let at = own * params.cols + id.x;
        let pair = unpack2x16float(weight[at / 2u]);
        out[(row - 1u) * params.cols + id.x] = select(pair.x, pair.y, at % 2u == 1u);
    }
}
