//! op = "embedding"
//! workgroups = ["fold2d(ceil_div(rows * cols, WG))"]
//! requires = ["cols % 32 == 0"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! [tune]
//! WG = [256, 64]
// out (rows, cols) = weight[ids], ids (rows), weight (vocab, cols; blocks of 32: a word of an f16 scale and an f16 zero
// point, then four words of eight nibbles)

struct Params { rows: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 256;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * WG + id.x;
    if (i < params.rows * params.cols) {
        let element = ids[i / params.cols] * params.cols + i % params.cols;
        let block = element / 32u * 5u;
        let head = unpack2x16float(weight[block]);
        let word = weight[block + 1u + element % 32u / 8u];
        out[i] = (f32(extractBits(word, 4u * (element % 8u), 4u)) - head.y) * head.x;
    }
}
