//! op = "linear_q4"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! optional = ["zero"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = x (rows, 32 blocks) @ weight^T, weight[j] = (q - zero) * scale, a scale and zero point a block of 32;
// an invocation an output, element by element, each weight in full

alias elem = f32;

struct Params { rows: u32, blocks: u32, n: u32, halves: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> packed: array<u32>;
@group(0) @binding(2) var<storage, read> scale: array<elem>;
@group(0) @binding(3) var<storage, read> zero: array<elem>; //? zero
@group(0) @binding(4) var<storage, read_write> out: array<elem>;
@group(0) @binding(5) var<uniform> params: Params;

// The word of element i of a block, and the place of its nibble there: from the lowest, or by bytes of two halves.
fn nibble(block: u32, i: u32) -> f32 {
    let byte_of_halves = i % 16u;
    let word = select(i / 8u, byte_of_halves / 4u, params.halves == 1u);
    let shift = select(4u * (i % 8u), 8u * (byte_of_halves % 4u) + 4u * (i / 16u), params.halves == 1u);
    return f32(extractBits(packed[4u * block + word], shift, 4u));
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let output = id.x;
    let row = id.y;
    if (output >= params.n || row >= params.rows) {
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < 32u * params.blocks; i++) {
        let block = output * params.blocks + i / 32u;
        var middle = 8.0;
        middle = f32(zero[block]); //? zero
        let weight = (nibble(block, i % 32u) - middle) * f32(scale[block]);
        sum += f32(x[row * 32u * params.blocks + i]) * weight;
    }
    out[row * params.n + output] = elem(sum);
}
