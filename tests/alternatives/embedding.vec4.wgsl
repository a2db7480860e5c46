//! op = "embedding"
//! workgroups = ["ceil_div(cols, 64)", "ceil_div(rows, 4)"]
//! requires = ["cols % 4 == 0"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, cols) = weight[ids], ids (rows), weight (vocab, cols); four elements an invocation

alias elem = f32;

struct Params { rows: u32, cols: u32 }

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
    out[id.y * cols + id.x] = weight[u32(ids[id.y]) * cols + id.x];
}
