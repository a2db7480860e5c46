"""Kernels that are right, and edits that make each wrong in one way of CONFORMANCE.md's catalogue."""

ADD = """//! op = "add"
//! workgroups = ["ceil_div(n, 64)"]
//! guarded = true
struct Params { n: u32 }
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i < params.n) {
        out[i] = a[i] + b[i];
    }
}
"""

SUM = """//! op = "sum"
//! workgroups = ["fold2d(rows)"]
struct Params { rows: u32, cols: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
var<workgroup> partial: array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let row = group.y * groups.x + group.x;
    let start = row * params.cols;
    var total = 0.0;
    if (row < params.rows) {
        for (var i = lane; i < params.cols; i += 64u) {
            total += x[start + i];
        }
    }
    partial[lane] = total;
    workgroupBarrier();
    for (var width = 32u; width > 0u; width /= 2u) {
        if (lane < width) {
            partial[lane] += partial[lane + width];
        }
        workgroupBarrier();
    }
    if (lane == 0u && row < params.rows) {
        out[row] = partial[0];
    }
}
"""

SOFTMAX = """//! op = "softmax"
//! workgroups = ["fold2d(rows)"]
struct Params { rows: u32, cols: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let row = group.y * groups.x + group.x;
    if (row >= params.rows) { return; }
    let start = row * params.cols;
    var top = -3.4028234663852886e38;
    for (var i = 0u; i < params.cols; i++) {
        top = max(top, x[start + i]);
    }
    var total = 0.0;
    for (var i = 0u; i < params.cols; i++) {
        total += exp(x[start + i] - top);
    }
    for (var i = 0u; i < params.cols; i++) {
        out[start + i] = exp(x[start + i] - top) / total;
    }
}
"""

ARGMAX = """//! op = "argmax"
//! workgroups = ["ceil_div(rows, 64)"]
struct Params { rows: u32, cols: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.rows) { return; }
    var best = 0u;
    for (var i = 1u; i < params.cols; i++) {
        if (x[id.x * params.cols + i] > x[id.x * params.cols + best]) { best = i; }
    }
    out[id.x] = best;
}
"""

CACHE = """//! op = "kv_cache_write"
//! workgroups = ["ceil_div(tokens * heads * head_dim, 64)"]
struct Params { tokens: u32, heads: u32, head_dim: u32, capacity: u32, start: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> cache: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let width = params.heads * params.head_dim;
    if (id.x >= params.tokens * width) { return; }
    let token = id.x / width;
    let head = id.x % width / params.head_dim;
    let slot = params.start + token;
    cache[(head * params.capacity + slot) * params.head_dim + id.x % params.head_dim] = x[id.x];
}
"""

RIGHT = {"add": ADD, "sum": SUM, "softmax": SOFTMAX, "argmax": ARGMAX, "kv_cache_write": CACHE}

# name: (kernel, what is replaced, by what, words of the report)
FAULTS = {
    "store guard lets one more through": (ADD, "i < params.n", "i <= params.n", "write past the end"),
    "no bounds check": (ADD, "if (i < params.n)", "if (true)", "write past the end"),
    "last element never written": (ADD, "i < params.n", "i + 1u < params.n", "not written"),
    "tail of a workgroup dropped": (ADD, "i < params.n", "i < params.n / 64u * 64u", "not written"),
    "size hard-coded": (ADD, "i < params.n", "i < min(params.n, 128u)", "tail not written"),
    "output kept and added to": (ADD, "= a[i]", "= out[i] + a[i]", "uninitialised memory"),
    "an input written": (ADD.replace("read> a", "read_write> a"), "out[i] =", "a[i] = 0.0; out[i] =", "input written"),
    "a product too little accurate": (ADD, "a[i] + b[i]", "(a[i] + b[i]) * 1.000001", "wrong value"),
    "missing barrier in a tree": (SUM, "        workgroupBarrier();\n    }\n    if", "    }\n    if", "race"),
    "missing barrier before a tree": (SUM, "    partial[lane] = total;\n    workgroupBarrier();",
                                      "    partial[lane] = total;", "race"),
    "one pass of a strided loop only": (SUM, "i < params.cols", "i < min(params.cols, 64u)", "wrong value"),
    "one past the end is read": (SUM, "i < params.cols", "i <= params.cols", "uninitialised memory"),
    "divided by a padded n": (SUM, "= partial[0]", "= partial[0] * f32(params.cols) / f32(params.cols + 1u)",
                              "wrong value"),
    "maximum not subtracted": (SOFTMAX, "- top", "- 0.0 * top", "wrong value: NaN"),
    "maximum started at zero": (SOFTMAX, "= -3.4028234663852886e38", "= 0.0", "wrong value"),
    "denominator of the row before": (SOFTMAX, "/ total", "/ (total + 1e-4)", "wrong value"),
    "tie goes to the last": (ARGMAX, "> x[id", ">= x[id", "wrong value"),
    "maximum in the tail missed": (ARGMAX, "i < params.cols", "i < params.cols - 1u", "wrong value"),
    "slot of the cache ignores the past": (CACHE, "params.start + token", "token", "cache"),
    "heads of the cache in another order": (CACHE, "let head = ", "let head = params.heads - 1u - ",
                                            "right values in wrong places"),
}  # fmt: skip
