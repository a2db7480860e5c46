//! op = "linear"
//! workgroups = ["fold2d(n)", "rows"]
//! requires = ["k % 32 == 0", "rows <= 65535"]
//! optional = ["bias"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! [tune]
//! WG = [64, 128, 32]
// out (rows, n) = x (rows, k) @ weight (n, k)^T + bias (n), the weight in blocks of 32: a word of an f16 scale and an
// f16 zero point, then four words of eight nibbles. A workgroup one output of a row; WG is a power of two.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 64;

var<workgroup> partial: array<f32, WG>;

fn nibbles(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let output = min(group.y * groups.x + group.x, params.n - 1u);
    let row = group.z;
    let blocks = params.k / 32u;
    var sum = 0.0;
    for (var block = lane; block < blocks; block += WG) {
        let at = (output * blocks + block) * 5u;
        let head = unpack2x16float(weight[at]);
        let first = (row * blocks + block) * 8u;
        var product = 0.0;
        for (var i = 0u; i < 4u; i++) {
            let word = weight[at + 1u + i];
            product += dot(nibbles(word) - head.y, x[first + 2u * i]);
            product += dot(nibbles(word >> 16u) - head.y, x[first + 2u * i + 1u]);
        }
        sum += head.x * product;
    }
    partial[lane] = sum;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            partial[lane] += partial[lane + stride];
        }
    }
    if (lane == 0u && row < params.rows) {
        var value = partial[0];
        value += bias[output]; //? bias
        out[row * params.n + output] = value;
    }
}
