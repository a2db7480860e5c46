//! op = "linear_q4"
//! optional = ["zero"]
//! guarded = true
//! [[pass]]
//! entry = "unpack"
//! workgroups = ["ceil_div(n * blocks * 32, 64)"]
//! [[pass]]
//! entry = "product"
//! workgroups = ["ceil_div(rows * n, 64)"]
//! [scratch]
//! weight = {dtype = "f32", shape = ["n", "32 * blocks"]}
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = x (rows, 32 blocks) @ weight^T, weight[j] = (q - zero) * scale, a scale and zero point a block of 32:
// first the weights unpacked into a scratch buffer, then the product

alias elem = f32;

struct Params { rows: u32, blocks: u32, n: u32, halves: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> packed: array<u32>;
@group(0) @binding(2) var<storage, read> scale: array<elem>;
@group(0) @binding(3) var<storage, read> zero: array<elem>; //? zero
@group(0) @binding(4) var<storage, read_write> weight: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;
@group(0) @binding(6) var<uniform> params: Params;

// The word of element i of a block, and the place of its nibble there: from the lowest, or by bytes of two halves.
fn nibble(block: u32, i: u32) -> f32 {
    let byte_of_halves = i % 16u;
    let word = select(i / 8u, byte_of_halves / 4u, params.halves == 1u);
    let shift = select(4u * (i % 8u), 8u * (byte_of_halves % 4u) + 4u * (i / 16u), params.halves == 1u);
    return f32(extractBits(packed[4u * block + word], shift, 4u));
}

@compute @workgroup_size(64)
fn unpack(@builtin(global_invocation_id) id: vec3<u32>) {
    let block = id.x / 32u;
    if (block < params.n * params.blocks) {
        var middle = 8.0;
        middle = f32(zero[block]); //? zero
        weight[id.x] = (nibble(block, id.x % 32u) - middle) * f32(scale[block]);
    }
}

@compute @workgroup_size(64)
fn product(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.rows * params.n) {
        return;
    }
    let k = 32u * params.blocks;
    var sum = 0.0;
    for (var i = 0u; i < k; i++) {
        sum += f32(x[id.x / params.n * k + i]) * weight[id.x % params.n * k + i];
    }
    out[id.x] = elem(sum);
}
