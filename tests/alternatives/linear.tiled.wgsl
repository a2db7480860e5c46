//! op = "linear"
//! workgroups = ["ceil_div(n, 8)", "ceil_div(rows, 8)"]
//! guarded = true
//! [types]
//! elem = ["f32", "f16"]
// out (rows, n) = x (rows, k) @ weight (n, k)^T; tiles of 8 x 8 in workgroup memory, zeros beyond k

alias elem = f32;

struct Params { rows: u32, k: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> weight: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;
@group(0) @binding(3) var<uniform> params: Params;

var<workgroup> x_tile: array<f32, 64>;
var<workgroup> weight_tile: array<f32, 64>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    let x_row = min(id.y, params.rows - 1u) * params.k;
    let weight_row = min(id.x - local.x + local.y, params.n - 1u) * params.k;
    var sum = 0.0;
    for (var first = 0u; first < params.k; first += 8u) {
        let i = first + local.x;
        let at = min(i, params.k - 1u);
        x_tile[local.y * 8u + local.x] = select(0.0, f32(x[x_row + at]), i < params.k);
        weight_tile[local.y * 8u + local.x] = select(0.0, f32(weight[weight_row + at]), i < params.k);
        workgroupBarrier();
        for (var j = 0u; j < 8u; j++) {
            sum += x_tile[local.y * 8u + j] * weight_tile[local.x * 8u + j];
        }
        workgroupBarrier();
    }
    if (id.x < params.n && id.y < params.rows) {
        out[id.y * params.n + id.x] = elem(sum);
    }
}
