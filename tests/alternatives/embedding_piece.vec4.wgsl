//! op = "embedding_piece"
//! workgroups = ["ceil_div(cols, 64)", "ceil_div(rows, 4)"]
//! requires = ["cols % 4 == 0"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = table[ids] where the id lies in weight (vocab, cols), the table's rows from first on; ids (rows);
// four elements an invocation

alias elem = f32;

struct Params { rows: u32, cols: u32, vocab: u32, first: u32 }

@group(0) @binding(0) var<storage, read> ids: array<i32>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<elem>>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(16, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let cols = params.cols / 4u;
    if (id.x >= cols || id.y >= params.rows) {
        return;
    }
    let own = ids[id.y] - i32(params.first);
    if (own >= 0 && own < i32(params.vocab)) {
        out[id.y * cols + id.x] = weight[u32(own) * cols + id.x];
    }
}
