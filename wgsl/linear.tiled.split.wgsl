//! op = "linear"
//! requires = ["k % 4 == 0"]
//! prefer = ["rows > 4", "k > 2048", "n < 2048"]
//! optional = ["bias"]
//! guarded = true
//! [[pass]]
//! entry = "multiply"
//! workgroups = ["ceil_div(n, 64)", "ceil_div(rows, TILE_ROWS)", "SPLIT"]
//! [[pass]]
//! entry = "join"
//! workgroups = ["fold2d(ceil_div(rows * n, 256))"]
//! [scratch]
//! shares = {dtype = "f32", shape = ["SPLIT", "rows", "n"]}
//! [tune]
//! TILE_ROWS = [64, 32]
//! SPLIT = [4, 8]
// out (rows, n) = x (rows, k) @ weight (n, k)^T + bias (n).
// A workgroup TILE_ROWS rows of 64 outputs, an invocation TILE_ROWS / 16 x 4, k by 16 in workgroup memory;
// SPLIT workgroups share k, then one pass adds up.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read_write> shares: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

override TILE_ROWS: u32 = 64;
override SPLIT: u32 = 4;
const STEP = 4u; // of k, in vec4s
const PITCH = 5u; // of a tile's row: one more than STEP, so that lanes meet different banks of memory

var<workgroup> x_tile: array<vec4<f32>, TILE_ROWS * PITCH>;
var<workgroup> w_tile: array<vec4<f32>, 64 * PITCH>;

// Elements 4 i to 4 i + 3 of a row of x, zeros from `end` on.
fn load(row: u32, i: u32, end: u32) -> vec4<f32> {
    let width = params.k / 4u;
    let at = min(row, params.rows - 1u) * width + min(i, width - 1u);
    return select(vec4<f32>(), x[at], i < end);
}

fn load_weight(row: u32, i: u32, end: u32) -> vec4<f32> {
    let width = params.k / 4u;
    return select(vec4<f32>(), weight[row * width + min(i, width - 1u)], i < end);
}

// sum + the products of 4 of k: columns of w are the 4 elements, its rows the outputs.
fn multiply_add(value: vec4<f32>, w: mat4x4<f32>, sum: vec4<f32>) -> vec4<f32> {
    let half_sum = fma(vec4<f32>(value.y), w[1], fma(vec4<f32>(value.x), w[0], sum));
    return fma(vec4<f32>(value.w), w[3], fma(vec4<f32>(value.z), w[2], half_sum));
}

fn store(share: u32, row: u32, first_output: u32, sums: vec4<f32>) {
    for (var c = 0u; c < 4u; c++) {
        let output = first_output + 16u * c;
        if (share < SPLIT && row < params.rows && output < params.n) {
            shares[(share * params.rows + row) * params.n + output] = sums[c];
        }
    }
}

@compute @workgroup_size(256)
fn multiply(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first_output = group.x * 64u;
    let first_row = group.y * TILE_ROWS;
    let width = params.k / 4u;
    let column = lane % 16u;
    let row = lane / 16u;
    let load_row = lane / STEP;
    let load_k = lane % STEP;
    let load_row_of_x = first_row + min(load_row, TILE_ROWS - 1u);
    let w_row = min(first_output + load_row, params.n - 1u);
    let share = (width + SPLIT * STEP - 1u) / (SPLIT * STEP) * STEP;
    let begin = min(group.z * share, width);
    let end = min(begin + share, width);
    // Sums have names and conditions are constant: an array indexed in a loop would not stay in registers.
    // sum3: row `row` + 3 * 16, outputs `column` + 16 (0, 1, 2, 3)
    var sum0 = vec4<f32>(); var sum1 = vec4<f32>(); var sum2 = vec4<f32>(); var sum3 = vec4<f32>();
    // What the next step needs is loaded before this one is computed.
    var next_x = load(load_row_of_x, begin + load_k, end);
    var next_w = load_weight(w_row, begin + load_k, end);
    for (var first = begin; first < end; first += STEP) {
        if (load_row < TILE_ROWS) {
            x_tile[load_row * PITCH + load_k] = next_x;
        }
        w_tile[load_row * PITCH + load_k] = next_w;
        workgroupBarrier();
        let i = first + STEP + load_k;
        next_x = load(load_row_of_x, i, end);
        next_w = load_weight(w_row, i, end);
        for (var c = 0u; c < min(STEP, end - first); c++) {
            let at = column * PITCH + c;
            let w = transpose(mat4x4<f32>(
                w_tile[at], w_tile[at + 16u * PITCH], w_tile[at + 32u * PITCH], w_tile[at + 48u * PITCH]));
            let x_at = row * PITCH + c;
            sum0 = multiply_add(x_tile[x_at], w, sum0);
            sum1 = multiply_add(x_tile[x_at + 16u * PITCH], w, sum1);
            if (TILE_ROWS > 32u) {
                sum2 = multiply_add(x_tile[x_at + 32u * PITCH], w, sum2);
                sum3 = multiply_add(x_tile[x_at + 48u * PITCH], w, sum3);
            }
        }
        workgroupBarrier();
    }
    store(group.z, first_row + row, first_output + column, sum0);
    store(group.z, first_row + row + 16u, first_output + column, sum1);
    if (TILE_ROWS > 32u) {
        store(group.z, first_row + row + 32u, first_output + column, sum2);
        store(group.z, first_row + row + 48u, first_output + column, sum3);
    }
}

@compute @workgroup_size(256)
fn join(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * 256u + id.x;
    let size = params.rows * params.n;
    if (i < size) {
        var value = 0.0;
        for (var s = 0u; s < SPLIT; s++) {
            value += shares[s * size + i];
        }
        value += bias[i % params.n]; //? bias
        out[i] = value;
    }
}
