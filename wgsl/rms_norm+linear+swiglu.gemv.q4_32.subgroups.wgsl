//! op = "rms_norm+linear+swiglu"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 32 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! [tune]
//! WG = [128, 32, 256, 8]
//! TILE_N = [1, 2, 4]
//! [software]
//! WG = 8
//! TILE_N = 4
// out (rows, n) = silu(y @ gate^T) * (y @ up^T), y = x / sqrt(mean(x^2) + eps) * norm_weight, x (rows, k),
// weight (2 n, k; in blocks): gate, then up. A workgroup makes both rows of an output.
// The sum of squares is formed beside the products, so the norm costs no barrier.
// A workgroup TILE_N outputs of a row, k split over its WG lanes, whatever the size of a subgroup. The outputs are
// written out one by one: an array of sums indexed in a loop would lie in memory, not in registers.
// A block of weight is 32 elements of a row: a word of an f16 scale and an f16 zero point, then four of eight nibbles.

enable subgroups;

struct Params { rows: u32, k: u32, n: u32, eps: f32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;

var<workgroup> partial_a: array<vec4<f32>, WG>; // outputs 0, 1: gate, up, gate, up
var<workgroup> partial_b: array<vec4<f32>, WG>; // outputs 2, 3
var<workgroup> partial_squares: array<f32, WG>;

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

// Half of the formula by the sign of x, so that exp never overflows.
fn silu(x: f32) -> f32 {
    let e = exp(-abs(x));
    return x * select(e, 1.0, x >= 0.0) / (1.0 + e);
}

// Products of an output's gate row and up row with elements 8 i to 8 i + 7.
fn products(output: u32, i: u32, x_low: vec4<f32>, x_high: vec4<f32>) -> vec2<f32> {
    let width = params.k / 8u;
    let at = min(output, params.n - 1u) * width + i;
    return vec2<f32>(product_at(at, x_low, x_high), product_at(at + params.n * width, x_low, x_high));
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
    var a = vec4<f32>();
    var b = vec4<f32>();
    var squares = vec4<f32>();
    for (var i = lane; i < width; i += WG) {
        let at = 2u * (row * width + i);
        squares = fma(x[at], x[at], fma(x[at + 1u], x[at + 1u], squares));
        let x_low = x[at] * norm_weight[2u * i];
        let x_high = x[at + 1u] * norm_weight[2u * i + 1u];
        if (TILE_N == 1u) {
            a += vec4<f32>(products(first, i, x_low, x_high), 0.0, 0.0);
        } else {
            a += vec4<f32>(products(first, i, x_low, x_high), products(first + 1u, i, x_low, x_high));
        }
        if (TILE_N > 2u) {
            b += vec4<f32>(products(first + 2u, i, x_low, x_high), products(first + 3u, i, x_low, x_high));
        }
    }
    // A subgroup's sum stands in the slot of its first lane, zeros in the others' slots, so nothing depends on how
    // lanes are grouped.
    a = subgroupAdd(a);
    partial_a[lane] = select(vec4<f32>(), a, subgroup_lane == 0u);
    if (TILE_N > 2u) {
        b = subgroupAdd(b);
        partial_b[lane] = select(vec4<f32>(), b, subgroup_lane == 0u);
    }
    let square = subgroupAdd(dot(squares, vec4<f32>(1.0)));
    partial_squares[lane] = select(0.0, square, subgroup_lane == 0u);
    workgroupBarrier();
    a = vec4<f32>();
    b = vec4<f32>();
    var mean = 0.0;
    for (var i = subgroup_lane; i < WG; i += subgroup_size) {
        a += partial_a[i];
        if (TILE_N > 2u) {
            b += partial_b[i];
        }
        mean += partial_squares[i];
    }
    a = subgroupAdd(a);
    if (TILE_N > 2u) {
        b = subgroupAdd(b);
    }
    mean = subgroupAdd(mean) / f32(params.k);
    if (lane < TILE_N && first + lane < params.n && row < params.rows) {
        let both = select(a, b, lane > 1u);
        let rows = select(both.xy, both.zw, lane % 2u == 1u) * inverseSqrt(mean + params.eps);
        out[row * params.n + first + lane] = silu(rows.x) * rows.y;
    }
}
