//! op = "linear+add"
//! workgroups = ["ceil_div(n, 64)", "ceil_div(rows, TILE_ROWS)"]
//! requires = ["k % 4 == 0"]
//! prefer = ["rows > 4", "k <= 2048 or n >= 2048"]
//! optional = ["bias"]
//! guarded = true
//! [tune]
//! TILE_ROWS = [64, 32, 128]
// out (rows, n) = residual (rows, n) + x (rows, k) @ weight (n, k)^T + bias (n).
// A workgroup TILE_ROWS rows of 64 outputs, an invocation TILE_ROWS / 16 x 4, k by 16 in workgroup memory.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

override TILE_ROWS: u32 = 64;
const STEP = 4u; // of k, in vec4s
const PITCH = 5u; // of a tile's row: one more than STEP, so that lanes meet different banks of memory

var<workgroup> x_tile: array<vec4<f32>, TILE_ROWS * PITCH>;
var<workgroup> w_tile: array<vec4<f32>, 64 * PITCH>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first_output = group.x * 64u;
    let first_row = group.y * TILE_ROWS;
    let width = params.k / 4u;
    let column = lane % 16u;
    let row = lane / 16u;
    let load_row = lane / STEP;
    let load_k = lane % STEP;
    let w_row = min(first_output + load_row, params.n - 1u);
    // sums[r][c]: row `row` + 16 r, output `column` + 16 c
    var sums: array<vec4<f32>, 8>;
    for (var first = 0u; first < width; first += STEP) {
        let i = first + load_k;
        for (var r = 0u; load_row + r < TILE_ROWS; r += 64u) {
            var value = vec4<f32>();
            if (i < width) {
                let at = min(first_row + load_row + r, params.rows - 1u) * width + i;
                value = x[at];
            }
            x_tile[(load_row + r) * PITCH + load_k] = value;
        }
        w_tile[load_row * PITCH + load_k] = select(vec4<f32>(), weight[w_row * width + min(i, width - 1u)], i < width);
        workgroupBarrier();
        for (var c = 0u; c < STEP; c++) {
            let at = column * PITCH + c;
            let w = transpose(mat4x4<f32>(
                w_tile[at], w_tile[at + 16u * PITCH], w_tile[at + 32u * PITCH], w_tile[at + 48u * PITCH]));
            for (var r = 0u; r < TILE_ROWS / 16u; r++) {
                let value = x_tile[(row + 16u * r) * PITCH + c];
                sums[r] = fma(vec4<f32>(value.x), w[0], sums[r]);
                sums[r] = fma(vec4<f32>(value.y), w[1], sums[r]);
                sums[r] = fma(vec4<f32>(value.z), w[2], sums[r]);
                sums[r] = fma(vec4<f32>(value.w), w[3], sums[r]);
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < TILE_ROWS / 16u; r++) {
        let out_row = first_row + row + 16u * r;
        for (var c = 0u; c < 4u; c++) {
            let output = first_output + column + 16u * c;
            if (out_row < params.rows && output < params.n) {
                var value = sums[r][c];
                value += bias[output]; //? bias
                out[out_row * params.n + output] = value + residual[out_row * params.n + output];
            }
        }
    }
}
