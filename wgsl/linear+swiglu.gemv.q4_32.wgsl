//! op = "linear+swiglu"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 32 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! [tune]
//! WG = [128, 8]
//! TILE_N = [1, 4]
//! [software]
//! WG = 8
//! TILE_N = 4
// out (rows, n) = silu(x @ gate^T) * (x @ up^T), x (rows, k), weight (2 n, k; in blocks): gate, then up.
// A workgroup makes both rows of an output.
// A workgroup TILE_N outputs of a row, k split over its WG lanes; both are powers of two, TILE_N <= WG.
// A block of weight is 32 elements of a row: a word of an f16 scale and an f16 zero point, then four of eight nibbles.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;

// (output, lane): products of gate and of up
var<workgroup> partial: array<vec2<f32>, TILE_N * WG>;

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

// Half of the formula by the sign of x, so that exp never overflows.
fn silu(x: f32) -> f32 {
    let e = exp(-abs(x));
    return x * select(e, 1.0, x >= 0.0) / (1.0 + e);
}

fn share(gates: vec4<f32>, ups: vec4<f32>) -> vec2<f32> {
    let ones = vec4<f32>(1.0);
    return vec2<f32>(dot(gates, ones), dot(ups, ones));
}

// The sum of partial over all lanes, in the first of the WG / TILE_N lanes that share an output.
fn total_of(lane: u32) -> vec2<f32> {
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
    let up_rows = rows + params.n * width;
    // Sums have names and conditions are constant: an array indexed in a loop would not stay in registers.
    var gate0 = vec4<f32>();
    var gate1 = vec4<f32>();
    var gate2 = vec4<f32>();
    var gate3 = vec4<f32>();
    var up0 = vec4<f32>();
    var up1 = vec4<f32>();
    var up2 = vec4<f32>();
    var up3 = vec4<f32>();
    for (var i = lane; i < width; i += WG) {
        let x_low = x[2u * (row * width + i)];
        let x_high = x[2u * (row * width + i) + 1u];
        gate0 = multiply_add(x_low, x_high, rows.x + i, gate0);
        up0 = multiply_add(x_low, x_high, up_rows.x + i, up0);
        if (TILE_N > 1u) {
            gate1 = multiply_add(x_low, x_high, rows.y + i, gate1);
            up1 = multiply_add(x_low, x_high, up_rows.y + i, up1);
        }
        if (TILE_N > 2u) {
            gate2 = multiply_add(x_low, x_high, rows.z + i, gate2);
            up2 = multiply_add(x_low, x_high, up_rows.z + i, up2);
            gate3 = multiply_add(x_low, x_high, rows.w + i, gate3);
            up3 = multiply_add(x_low, x_high, up_rows.w + i, up3);
        }
    }
    partial[lane] = share(gate0, up0);
    if (TILE_N > 1u) {
        partial[WG + lane] = share(gate1, up1);
    }
    if (TILE_N > 2u) {
        partial[2u * WG + lane] = share(gate2, up2);
        partial[3u * WG + lane] = share(gate3, up3);
    }
    let total = total_of(lane);
    let output = first + lane / (WG / TILE_N);
    if (lane % (WG / TILE_N) == 0u && output < params.n && row < params.rows) {
        let value = silu(total.x) * total.y;
        out[row * params.n + output] = value;
    }
}
