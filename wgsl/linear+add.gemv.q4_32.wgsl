//! op = "linear+add"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 32 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! [tune]
//! WG = [128, 64, 256, 8]
//! TILE_N = [1, 2, 4]
//! [software]
//! WG = 8
//! TILE_N = 4
// out (rows, n) = residual (rows, n) + x (rows, k) @ weight (n, k; in blocks)^T.
// A workgroup TILE_N outputs of a row, k split over its WG lanes; both are powers of two, TILE_N <= WG.
// A block of weight is 32 elements of a row: a word of an f16 scale and an f16 zero point, then four of eight nibbles.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> residual: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;

// (output, lane): products
var<workgroup> partial: array<f32, TILE_N * WG>;

fn nibbles(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u));
}

// sum + the products of elements 8 i to 8 i + 7 of weight, counted through all its rows.
fn multiply_add(x_low: vec4<f32>, x_high: vec4<f32>, i: u32, sum: vec4<f32>) -> vec4<f32> {
    let block = i / 4u * 5u;
    let head = unpack2x16float(weight[block]);
    let word = weight[block + 1u + i % 4u];
    let products = fma(x_low, nibbles(word) - head.y, x_high * (nibbles(word >> 16u) - head.y));
    return fma(vec4<f32>(head.x), products, sum);
}

fn share(products: vec4<f32>) -> f32 {
    return dot(products, vec4<f32>(1.0));
}

// The sum of partial over all lanes, in the first of the WG / TILE_N lanes that share an output.
fn total_of(lane: u32) -> f32 {
    let sharers = WG / TILE_N;
    let place = lane % sharers;
    let own = lane / sharers * WG + place;
    workgroupBarrier();
    for (var i = 1u; i < TILE_N; i++) {
        partial[own] += partial[own + i * sharers];
    }
    for (var stride = sharers / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (place < stride) {
            partial[own] += partial[own + stride];
        }
    }
    return partial[own];
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = (group.y * groups.x + group.x) * TILE_N;
    let row = group.z;
    let width = params.k / 8u;
    // Rows of weight; those beyond the last repeat it and are not stored.
    let rows = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.n - 1u)) * width;
    // What the end needs is loaded before the sums are waited for.
    let mine = min(first + lane / (WG / TILE_N), params.n - 1u);
    let rest = residual[row * params.n + mine];
    // Sums have names and conditions are constant: an array indexed in a loop would not stay in registers.
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    for (var i = lane; i < width; i += WG) {
        let x_low = x[2u * (row * width + i)];
        let x_high = x[2u * (row * width + i) + 1u];
        sum0 = multiply_add(x_low, x_high, rows.x + i, sum0);
        if (TILE_N > 1u) {
            sum1 = multiply_add(x_low, x_high, rows.y + i, sum1);
        }
        if (TILE_N > 2u) {
            sum2 = multiply_add(x_low, x_high, rows.z + i, sum2);
            sum3 = multiply_add(x_low, x_high, rows.w + i, sum3);
        }
    }
    partial[lane] = share(sum0);
    if (TILE_N > 1u) {
        partial[WG + lane] = share(sum1);
    }
    if (TILE_N > 2u) {
        partial[2u * WG + lane] = share(sum2);
        partial[3u * WG + lane] = share(sum3);
    }
    let total = total_of(lane);
    let output = first + lane / (WG / TILE_N);
    if (lane % (WG / TILE_N) == 0u && output < params.n && row < params.rows) {
        let value = total;
        out[row * params.n + output] = value + rest;
    }
}
