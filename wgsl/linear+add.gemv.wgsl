//! op = "linear+add"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 4 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! optional = ["bias"]
//! guarded = true
//! [tune]
//! WG = [128, 32, 256, 8]
//! TILE_N = [1, 2, 4, 8]
//! [software]
//! WG = 8
//! TILE_N = 8
// out (rows, n) = residual (rows, n) + x (rows, k) @ weight (n, k)^T + bias (n).
// A workgroup TILE_N outputs of a row, k split over its WG lanes; both are powers of two, TILE_N <= WG.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;
const MAX_TILE_N = 8u;
const ONES = vec4<f32>(1.0);

// (output, lane): products
var<workgroup> partial: array<f32, TILE_N * WG>;

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
    var products: array<vec4<f32>, MAX_TILE_N>;
    for (var i = lane; i < width; i += WG) {
        let value = x[row * width + i];
        for (var t = 0u; t < TILE_N; t++) {
            let output = min(first + t, params.n - 1u);
            products[t] = fma(value, weight[output * width + i], products[t]);
        }
    }
    for (var t = 0u; t < TILE_N; t++) {
        partial[t * WG + lane] = dot(products[t], ONES);
    }
    let total = total_of(lane);
    let output = first + lane / (WG / TILE_N);
    if (lane % (WG / TILE_N) == 0u && output < params.n && row < params.rows) {
        var value = total;
        value += bias[output]; //? bias
        out[row * params.n + output] = value + residual[row * params.n + output];
    }
}
