//! op = "linear_q4"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! requires = ["halves == 0"]
//! optional = ["zero"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = x (rows, 32 blocks) @ weight^T, weight[j] = (q - zero) * scale, a scale and zero point a block of 32;
// an invocation an output, word by word from the last, a word's nibbles shifted out

alias elem = f32;

struct Params { rows: u32, blocks: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> packed: array<u32>;
@group(0) @binding(2) var<storage, read> scale: array<elem>;
@group(0) @binding(3) var<storage, read> zero: array<elem>; //? zero
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var sum = 0.0;
    for (var w = 4u * params.blocks; w > 0u; w--) {
        let block = output * params.blocks + (w - 1u) / 4u;
        var middle = 8.0;
        middle = f32(zero[block]); //? zero
        var word = packed[output * 4u * params.blocks + w - 1u];
        var share = 0.0;
        for (var i = 0u; i < 8u; i++) {
            share = fma(f32(word & 15u) - middle, f32(x[(row * 4u * params.blocks + w - 1u) * 8u + i]), share);
            word >>= 4u;
        }
        sum = fma(share, f32(scale[block]), sum);
    }
    out[row * params.n + output] = elem(sum);
}
