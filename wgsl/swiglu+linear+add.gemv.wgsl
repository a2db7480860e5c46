//! op = "swiglu+linear+add"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 4 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! guarded = true
//! [tune]
//! WG = [128, 8]
//! TILE_N = [1, 4]
//! [software]
//! WG = 8
//! TILE_N = 4
// out (rows, n) = residual (rows, n) + (silu(gate) * up) @ weight (n, k)^T,
// x (rows, 2 k): gate, then up.
// A workgroup TILE_N outputs of a row, k split over its WG lanes; both are powers of two, TILE_N <= WG.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> residual: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;

// (output, lane): products
var<workgroup> partial: array<f32, TILE_N * WG>;

// Half of the formula by the sign of x, so that exp never overflows.
fn silu(x: vec4<f32>) -> vec4<f32> {
    let e = exp(-abs(x));
    return x * select(e, vec4<f32>(1.0), x >= vec4<f32>()) / (1.0 + e);
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
    let width = params.k / 4u;
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
        let at = row * 2u * width + i;
        let value = silu(x[at]) * x[at + width];
        sum0 = fma(value, weight[rows.x + i], sum0);
        if (TILE_N > 1u) {
            sum1 = fma(value, weight[rows.y + i], sum1);
        }
        if (TILE_N > 2u) {
            sum2 = fma(value, weight[rows.z + i], sum2);
            sum3 = fma(value, weight[rows.w + i], sum3);
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
