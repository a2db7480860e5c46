//! op = "linear_q4"
//! workgroups = ["fold2d(n)", "rows"]
//! requires = ["halves == 0", "rows <= 65535"]
//! optional = ["zero"]
//! guarded = true
//! [tune]
//! WG = [64, 128, 32]
// out (rows, n) = x (rows, 32 blocks) @ weight^T, weight[j] = (q - zero) * scale, a scale and zero point a block of 32.
// A workgroup one output of a row, its WG lanes a block each in turn; WG is a power of two.

struct Params { rows: u32, blocks: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> packed: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scale: array<f32>;
@group(0) @binding(3) var<storage, read> zero: array<f32>; //? zero
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

override WG: u32 = 64;

var<workgroup> partial: array<f32, WG>;

// Elements 0 to 3, and 4 to 7, of a word whose lowest nibble is the first.
fn low(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u));
}

fn high(word: u32) -> vec4<f32> {
    return low(word >> 16u);
}

// The part of a product that a word's eight elements make, without the scale.
fn part(word: u32, first: u32, middle: f32) -> f32 {
    return dot(low(word) - middle, x[first]) + dot(high(word) - middle, x[first + 1u]);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let output = min(group.y * groups.x + group.x, params.n - 1u);
    let row = group.z;
    var sum = 0.0;
    for (var block = lane; block < params.blocks; block += WG) {
        let at = output * params.blocks + block;
        let words = packed[at];
        let first = (row * params.blocks + block) * 8u;
        var middle = 8.0;
        middle = zero[at]; //? zero
        sum += scale[at] * (part(words.x, first, middle) + part(words.y, first + 2u, middle)
            + part(words.z, first + 2u * 2u, middle) + part(words.w, first + 3u * 2u, middle));
    }
    partial[lane] = sum;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            partial[lane] += partial[lane + stride];
        }
    }
    if (lane == 0u && row < params.rows) {
        out[row * params.n + output] = partial[0];
    }
}
