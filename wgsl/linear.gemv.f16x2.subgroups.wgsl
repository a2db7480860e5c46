//! op = "linear"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 8 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! optional = ["bias"]
//! guarded = true
//! [storage]
//! weight = "f16x2"
//! [tune]
//! WG = [128, 32, 256, 8]
//! TILE_N = [1, 2, 4, 8]
//! [software]
//! WG = 8
//! TILE_N = 8
// out (rows, n) = x (rows, k) @ weight (n, k; two halves a word)^T + bias (n).
// A workgroup TILE_N outputs of a row, k split over its WG lanes, whatever the size of a subgroup.

enable subgroups;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;
const MAX_TILE_N = 8u;
const ONES = vec4<f32>(1.0);

// (output, lane): products
var<workgroup> partial: array<f32, TILE_N * WG>;

fn low(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn high(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w));
}

// The sum of partial over all lanes for one output. A subgroup's sum stands in the slot of its first lane, zeros in the
// others' slots, so nothing depends on how lanes are grouped.
fn total_of(output: u32, first: u32, step: u32) -> f32 {
    var total = 0.0;
    for (var i = first; i < WG; i += step) {
        total += partial[output * WG + i];
    }
    return subgroupAdd(total);
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
    var products: array<vec4<f32>, MAX_TILE_N>;
    for (var i = lane; i < width; i += WG) {
        let x_low = x[2u * (row * width + i)];
        let x_high = x[2u * (row * width + i) + 1u];
        for (var t = 0u; t < TILE_N; t++) {
            let output = min(first + t, params.n - 1u);
            let words = weight[output * width + i];
            products[t] = fma(x_low, low(words), fma(x_high, high(words), products[t]));
        }
    }
    for (var t = 0u; t < TILE_N; t++) {
        let sum = subgroupAdd(dot(products[t], ONES));
        partial[t * WG + lane] = select(0.0, sum, subgroup_lane == 0u);
    }
    workgroupBarrier();
    for (var t = 0u; t < TILE_N; t++) {
        let total = total_of(t, subgroup_lane, subgroup_size);
        if (lane == t && first + t < params.n && row < params.rows) {
            var value = total;
            value += bias[first + t]; //? bias
            out[row * params.n + first + t] = value;
        }
    }
}
