//! op = "linear"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 32 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! optional = ["bias"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! [tune]
//! WG = [128, 32, 256, 8]
//! TILE_N = [1, 2, 4, 8]
//! [software]
//! WG = 8
//! TILE_N = 8
// out (rows, n) = x (rows, k) @ weight (n, k; in blocks)^T + bias (n).
// A workgroup TILE_N outputs of a row, k split over its WG lanes, whatever the size of a subgroup. The outputs are
// written out one by one: an array of sums indexed in a loop would lie in memory, not in registers.
// A block of weight is 32 elements of a row: a word of an f16 scale and an f16 zero point, then four of eight nibbles.

enable subgroups;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;

var<workgroup> partial_a: array<vec4<f32>, WG>; // outputs 0 to 3
var<workgroup> partial_b: array<vec4<f32>, WG>; // outputs 4 to 7

fn nibbles(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u));
}

// The product of elements 8 i to 8 i + 7 of weight, counted through all its rows.
fn product_at(i: u32, x_low: vec4<f32>, x_high: vec4<f32>) -> f32 {
    let block = i / 4u * 5u;
    let head = unpack2x16float(weight[block]);
    let word = weight[block + 1u + i % 4u];
    return head.x * (dot(x_low, nibbles(word) - head.y) + dot(x_high, nibbles(word >> 16u) - head.y));
}

// The product of an output's row with elements 8 i to 8 i + 7.
fn product(output: u32, i: u32, x_low: vec4<f32>, x_high: vec4<f32>) -> f32 {
    return product_at(min(output, params.n - 1u) * (params.k / 8u) + i, x_low, x_high);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
    @builtin(subgroup_size) subgroup_size: u32,
) {
    let first = (group.y * groups.x + group.x) * TILE_N;
    let row = group.z;
    let width = params.k / 8u;
    // What is added at the end is read ahead, so that its way from memory hides behind the products.
    let output = min(first + min(lane, TILE_N - 1u), params.n - 1u); //? bias
    let offset = bias[output]; //? bias
    var a = vec4<f32>();
    var b = vec4<f32>();
    for (var i = lane; i < width; i += WG) {
        let x_low = x[2u * (row * width + i)];
        let x_high = x[2u * (row * width + i) + 1u];
        a.x += product(first, i, x_low, x_high);
        if (TILE_N > 1u) {
            a.y += product(first + 1u, i, x_low, x_high);
        }
        if (TILE_N > 2u) {
            a.z += product(first + 2u, i, x_low, x_high);
            a.w += product(first + 3u, i, x_low, x_high);
        }
        if (TILE_N > 4u) {
            b.x += product(first + 4u, i, x_low, x_high);
            b.y += product(first + 5u, i, x_low, x_high);
            b.z += product(first + 6u, i, x_low, x_high);
            b.w += product(first + 7u, i, x_low, x_high);
        }
    }
    // A subgroup's sum stands in the slot of its first lane, zeros in the others' slots, so nothing depends on how
    // lanes are grouped.
    a = subgroupAdd(a);
    partial_a[lane] = select(vec4<f32>(), a, subgroup_lane == 0u);
    if (TILE_N > 4u) {
        b = subgroupAdd(b);
        partial_b[lane] = select(vec4<f32>(), b, subgroup_lane == 0u);
    }
    workgroupBarrier();
    a = vec4<f32>();
    b = vec4<f32>();
    for (var i = subgroup_lane; i < WG; i += subgroup_size) {
        a += partial_a[i];
        if (TILE_N > 4u) {
            b += partial_b[i];
        }
    }
    a = subgroupAdd(a);
    if (TILE_N > 4u) {
        b = subgroupAdd(b);
    }
    if (lane < TILE_N && first + lane < params.n && row < params.rows) {
        var value = select(b[lane % 4u], a[lane % 4u], lane < 4u);
        value += offset; //? bias
        out[row * params.n + first + lane] = value;
    }
}
