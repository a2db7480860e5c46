//! op = "linear"
//! workgroups = ["ceil_div(n, 64)", "ceil_div(rows, TILE_ROWS)"]
//! requires = ["k % 32 == 0"]
//! prefer = ["rows > 4", "k <= 2048 or n >= 2048"]
//! optional = ["bias"]
//! guarded = true
//! [storage]
//! weight = "q4_32"
//! [tune]
//! TILE_ROWS = [64, 32, 128]
// out (rows, n) = x (rows, k) @ weight (n, k; in blocks)^T + bias (n).
// A workgroup TILE_ROWS rows of 64 outputs, an invocation TILE_ROWS / 16 x 4, k by 16 in workgroup memory.
// A block of weight is 32 elements of a row: a word of an f16 scale and an f16 zero point, then four of eight nibbles.

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

override TILE_ROWS: u32 = 64;
const STEP = 4u; // of k, in vec4s
const PITCH = 5u; // of a tile's row: one more than STEP, so that lanes meet different banks of memory

var<workgroup> x_tile: array<vec4<f32>, TILE_ROWS * PITCH>;
var<workgroup> w_tile: array<vec4<f32>, 64 * PITCH>;

// Elements 4 i to 4 i + 3 of a row of x; from k on the last ones again, which no step computes with.
fn load(row: u32, i: u32) -> vec4<f32> {
    let width = params.k / 4u;
    return x[min(row, params.rows - 1u) * width + min(i, width - 1u)];
}

// Elements 8 i to 8 i + 7 of a row of weight as the block's first word and theirs; from k on the last ones again, which
// no step computes with.
fn load_words(row: u32, i: u32) -> vec2<u32> {
    let words = params.k / 8u;
    let at = row * words + min(i, words - 1u);
    let block = at / 4u * 5u;
    return vec2<u32>(weight[block], weight[block + 1u + at % 4u]);
}

fn nibbles(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u));
}

// sum + the products of 4 of k: columns of w are the 4 elements, its rows the outputs.
fn multiply_add(value: vec4<f32>, w: mat4x4<f32>, sum: vec4<f32>) -> vec4<f32> {
    let half_sum = fma(vec4<f32>(value.y), w[1], fma(vec4<f32>(value.x), w[0], sum));
    return fma(vec4<f32>(value.w), w[3], fma(vec4<f32>(value.z), w[2], half_sum));
}

fn store(row: u32, first_output: u32, sums: vec4<f32>) {
    for (var c = 0u; c < 4u; c++) {
        let output = first_output + 16u * c;
        if (row < params.rows && output < params.n) {
            let at = row * params.n + output;
            var value = sums[c];
            value += bias[output]; //? bias
            out[at] = value;
        }
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first_output = group.x * 64u;
    let first_row = group.y * TILE_ROWS;
    let width = params.k / 4u;
    let column = lane % 16u;
    let row = lane / 16u;
    let load_row = lane / STEP;
    let load_k = lane % STEP;
    let load_row_of_x = first_row + min(load_row, TILE_ROWS - 1u);
    let load_w = lane / 2u % 64u;
    let w_row = min(first_output + load_w, params.n - 1u);
    // Sums have names and conditions are constant: an array indexed in a loop would not stay in registers.
    // sum3: row `row` + 3 * 16, outputs `column` + 16 (0, 1, 2, 3)
    var sum0 = vec4<f32>(); var sum1 = vec4<f32>(); var sum2 = vec4<f32>(); var sum3 = vec4<f32>();
    var sum4 = vec4<f32>(); var sum5 = vec4<f32>(); var sum6 = vec4<f32>(); var sum7 = vec4<f32>();
    // What the next step needs is loaded before this one is computed.
    var next_x = load(load_row_of_x, load_k);
    var next_other = load(load_row_of_x + 64u, load_k); // where TILE_ROWS > 64
    var next_w = load_words(w_row, lane % 2u);
    for (var first = 0u; first < width; first += STEP) {
        if (load_row < TILE_ROWS) {
            x_tile[load_row * PITCH + load_k] = next_x;
        }
        if (TILE_ROWS > 64u) {
            x_tile[(load_row + 64u) * PITCH + load_k] = next_other;
        }
        if (lane < 128u) {
            let at = lane / 2u * PITCH + lane % 2u * 2u;
            let head = unpack2x16float(next_w.x);
            w_tile[at] = (nibbles(next_w.y) - head.y) * head.x;
            w_tile[at + 1u] = (nibbles(next_w.y >> 16u) - head.y) * head.x;
        }
        workgroupBarrier();
        let i = first + STEP + load_k;
        next_x = load(load_row_of_x, i);
        if (TILE_ROWS > 64u) {
            next_other = load(load_row_of_x + 64u, i);
        }
        next_w = load_words(w_row, (first + STEP) / 2u + lane % 2u);
        for (var c = 0u; c < STEP; c++) {
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
            if (TILE_ROWS > 64u) {
                sum4 = multiply_add(x_tile[x_at + 64u * PITCH], w, sum4);
                sum5 = multiply_add(x_tile[x_at + 80u * PITCH], w, sum5);
                sum6 = multiply_add(x_tile[x_at + 96u * PITCH], w, sum6);
                sum7 = multiply_add(x_tile[x_at + 112u * PITCH], w, sum7);
            }
        }
        workgroupBarrier();
    }
    store(first_row + row, first_output + column, sum0);
    store(first_row + row + 16u, first_output + column, sum1);
    if (TILE_ROWS > 32u) {
        store(first_row + row + 32u, first_output + column, sum2);
        store(first_row + row + 48u, first_output + column, sum3);
    }
    if (TILE_ROWS > 64u) {
        store(first_row + row + 64u, first_output + column, sum4);
        store(first_row + row + 80u, first_output + column, sum5);
        store(first_row + row + 96u, first_output + column, sum6);
        store(first_row + row + 112u, first_output + column, sum7);
    }
}
