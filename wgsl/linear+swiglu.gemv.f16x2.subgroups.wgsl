//! op = "linear+swiglu"
//! workgroups = ["fold2d(ceil_div(n, TILE_N))", "rows"]
//! requires = ["k % 8 == 0", "rows <= 65535"]
//! prefer = ["rows <= 4"]
//! guarded = true
//! [storage]
//! weight = "f16x2"
//! [tune]
//! WG = [128, 32, 256, 8]
//! TILE_N = [1, 2, 4]
//! [software]
//! WG = 8
//! TILE_N = 4
// out (rows, n) = silu(x @ gate^T) * (x @ up^T), x (rows, k), weight (2 n, k; two halves a word): gate, then up.
// A workgroup makes both rows of an output.
// A workgroup TILE_N outputs of a row, k split over its WG lanes, whatever the size of a subgroup.

enable subgroups;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

override WG: u32 = 128;
override TILE_N: u32 = 1;
const MAX_TILE_N = 4u;
const ONES = vec4<f32>(1.0);

// (output, lane): products of gate and of up
var<workgroup> partial: array<vec2<f32>, TILE_N * WG>;

fn low(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn high(words: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w));
}

// Half of the formula by the sign of x, so that exp never overflows.
fn silu(x: f32) -> f32 {
    let e = exp(-abs(x));
    return x * select(e, 1.0, x >= 0.0) / (1.0 + e);
}

// The sum of partial over all lanes for one output. A subgroup's sum stands in the slot of its first lane, zeros in the
// others' slots, so nothing depends on how lanes are grouped.
fn total_of(output: u32, first: u32, step: u32) -> vec2<f32> {
    var total = vec2<f32>();
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
    var gates: array<vec4<f32>, MAX_TILE_N>;
    var ups: array<vec4<f32>, MAX_TILE_N>;
    for (var i = lane; i < width; i += WG) {
        let x_low = x[2u * (row * width + i)];
        let x_high = x[2u * (row * width + i) + 1u];
        for (var t = 0u; t < TILE_N; t++) {
            let output = min(first + t, params.n - 1u);
            let gate = weight[output * width + i];
            let up = weight[(params.n + output) * width + i];
            gates[t] = fma(x_low, low(gate), fma(x_high, high(gate), gates[t]));
            ups[t] = fma(x_low, low(up), fma(x_high, high(up), ups[t]));
        }
    }
    for (var t = 0u; t < TILE_N; t++) {
        let sum = subgroupAdd(vec2<f32>(dot(gates[t], ONES), dot(ups[t], ONES)));
        partial[t * WG + lane] = select(vec2<f32>(), sum, subgroup_lane == 0u);
    }
    workgroupBarrier();
    for (var t = 0u; t < TILE_N; t++) {
        let total = total_of(t, subgroup_lane, subgroup_size);
        if (lane == t && first + t < params.n && row < params.rows) {
            let value = silu(total.x) * total.y;
            out[row * params.n + first + t] = value;
        }
    }
}
