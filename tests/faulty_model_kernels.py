"""More of the catalogue: kernels of a model's ops that are right, and the edits that make each wrong in one way."""

from pytest_webgpu import resources

HEAD = """//! op = "{op}"
//! workgroups = ["ceil_div({count}, 64)"]
struct Params {{ {fields} }}
@group(0) @binding(0) var<uniform> params: Params;
{bindings}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    if (id.x >= {guard}) {{ return; }}
{body}}}
"""


def serial(op, count, fields, inputs, body, outputs="out: array<f32>"):
    """One invocation for each of `count` results. Types are named where they are not array<f32>."""
    typed = [i if ":" in i else f"{i}: array<f32>" for i in inputs.split()]
    bindings = [f"var<storage, read> {i.replace(':', ': ')};" for i in typed]
    bindings += [f"var<storage, read_write> {o};" for o in outputs.split("; ")]
    numbered = "\n".join(f"@group(0) @binding({n}) {b}" for n, b in enumerate(bindings, 1))
    guard = " * ".join(f"params.{name}" for name in count.split(" * "))
    return HEAD.format(op=op, count=count, fields=fields, bindings=numbered, guard=guard, body=body)


NORM = serial("rms_norm", "rows", "rows: u32, cols: u32, eps: f32", "x weight", """    let first = id.x * params.cols;
    var squares = 0.0;
    for (var i = 0u; i < params.cols; i++) { squares += x[first + i] * x[first + i]; }
    let scale = inverseSqrt(squares / f32(params.cols) + params.eps);
    for (var i = 0u; i < params.cols; i++) { out[first + i] = x[first + i] * scale * weight[i]; }
""")
SILU = serial("silu_mul", "n", "n: u32", "gate up",
              "    out[id.x] = gate[id.x] / (1.0 + exp(-gate[id.x])) * up[id.x];\n")  # fmt: skip
LINEAR = serial("linear+add", "rows * n", "rows: u32, k: u32, n: u32", "x weight bias residual", """    let row = id.x / params.n;
    let col = id.x % params.n;
    var sum = 0.0;
    for (var i = 0u; i < params.k; i++) { sum += x[row * params.k + i] * weight[col * params.k + i]; }
    out[id.x] = sum + bias[col] + residual[id.x];
""")  # noqa: E501
ROPE = serial("rope", "tokens * heads * head_dim", "tokens: u32, heads: u32, head_dim: u32, half: u32",
              "x cos sin positions:array<u32>", """    let i = id.x % params.head_dim;
    let at = positions[id.x / (params.heads * params.head_dim)] * params.half + i % params.half;
    if (i < params.half) {
        out[id.x] = x[id.x] * cos[at] - x[id.x + params.half] * sin[at];
    } else if (i < 2u * params.half) {
        out[id.x] = x[id.x] * cos[at] + x[id.x - params.half] * sin[at];
    } else {
        out[id.x] = x[id.x];
    }
""")  # fmt: skip
ANGLES = serial("rope_angles", "tokens * heads * head_dim", "tokens: u32, heads: u32, head_dim: u32, base: f32",
                "x positions:array<u32>", """    let i = id.x % params.head_dim;
    let half = params.head_dim / 2u;
    let frequency = pow(params.base, -2.0 * f32(i % half) / f32(params.head_dim));
    let angle = f32(positions[id.x / (params.heads * params.head_dim)]) * frequency;
    if (i < half) {
        out[id.x] = x[id.x] * cos(angle) - x[id.x + half] * sin(angle);
    } else {
        out[id.x] = x[id.x] * cos(angle) + x[id.x - half] * sin(angle);
    }
""")  # fmt: skip
ATTENTION = serial(
    "attention", "tokens * heads",
    "tokens: u32, heads: u32, kv_heads: u32, head_dim: u32, capacity: u32, start: u32, scale: f32", "q k v",
    """    let token = id.x / params.heads;
    let head = id.x % params.heads;
    let mine = (head / (params.heads / params.kv_heads)) * params.capacity * params.head_dim;
    let seen = params.start + token + 1u;
    var top = -3.4028234663852886e38;
    for (var j = 0u; j < seen; j++) { top = max(top, score(id.x, mine, j)); }
    var total = 0.0;
    for (var j = 0u; j < seen; j++) { total += exp(score(id.x, mine, j) - top); }
    let first = id.x * params.head_dim;
    for (var d = 0u; d < params.head_dim; d++) { out[first + d] = 0.0; }
    for (var j = 0u; j < seen; j++) {
        let weight = exp(score(id.x, mine, j) - top) / total;
        for (var d = 0u; d < params.head_dim; d++) {
            out[first + d] += weight * v[mine + j * params.head_dim + d];
        }
    }
""").replace("@compute", """fn score(query: u32, mine: u32, j: u32) -> f32 {
    var sum = 0.0;
    for (var d = 0u; d < params.head_dim; d++) {
        sum += q[query * params.head_dim + d] * k[mine + j * params.head_dim + d];
    }
    return sum * params.scale;
}
@compute""")  # fmt: skip
TOP_K = serial("top_k", "rows", "rows: u32, cols: u32, k: u32", "x", """    let first = id.x * params.cols;
    for (var j = 0u; j < params.k; j++) {
        var best = params.cols;
        for (var i = 0u; i < params.cols; i++) {
            var taken = false;
            for (var t = 0u; t < j; t++) { taken = taken || indices[id.x * params.k + t] == i; }
            if (!taken && (best == params.cols || x[first + i] > x[first + best])) { best = i; }
        }
        values[id.x * params.k + j] = x[first + best];
        indices[id.x * params.k + j] = best;
    }
""", "values: array<f32>; indices: array<u32>")
COPY = serial("copy", "d0 * d1 * d2 * d3",
              "d0: u32, d1: u32, d2: u32, d3: u32, offset: u32, s0: u32, s1: u32, s2: u32, s3: u32", "x",
              """    let i3 = id.x % params.d3;
    let i2 = id.x / params.d3 % params.d2;
    let i1 = id.x / (params.d3 * params.d2) % params.d1;
    let i0 = id.x / (params.d3 * params.d2 * params.d1);
    out[id.x] = x[params.offset + i0 * params.s0 + i1 * params.s1 + i2 * params.s2 + i3 * params.s3];
""")  # fmt: skip
EMBEDDING = serial("embedding", "rows * cols", "rows: u32, cols: u32", "ids:array<u32> weight",
                   "    out[id.x] = weight[ids[id.x / params.cols] * params.cols + id.x % params.cols];\n")
HALF_SUM = serial("sum", "rows", "rows: u32, cols: u32", "x:array<f16>", """    var total = 0.0;
    for (var i = 0u; i < params.cols; i++) { total += f32(x[id.x * params.cols + i]); }
    out[id.x] = total;
""").replace("struct", "enable f16;\nstruct", 1)  # fmt: skip


def shipped(name):
    return (resources.folder("wgsl") / f"{name}.wgsl").read_text()


PACKED, FOUR_BIT = shipped("cast.pack"), shipped("linear_q4.gemv")
RIGHT = {"rms_norm": NORM, "silu_mul": SILU, "linear+add": LINEAR, "rope": ROPE, "rope_angles": ANGLES,
         "attention": ATTENTION, "top_k": TOP_K, "copy": COPY, "embedding": EMBEDDING,
         "sum of halves": HALF_SUM}  # fmt: skip

WRONG, BEHIND = "wrong value", "depends on uninitialised memory"
# name: (kernel, what is replaced, by what, words of the report)
FAULTS = {
    "eps outside of the root": (
        NORM, "(squares / f32(params.cols) + params.eps)",
        "(squares / f32(params.cols)) + params.eps", WRONG,
    ),
    "eps before the mean": (
        NORM, "squares / f32(params.cols) + params.eps",
        "(squares + params.eps) / f32(params.cols)", WRONG,
    ),
    "eps missing": (NORM, "+ params.eps", "+ 0.0 * params.eps", WRONG),
    "eps constant": (NORM, "+ params.eps", "+ 1e-6 + 0.0 * params.eps", WRONG),
    "divided by n - 1": (NORM, "f32(params.cols)", "max(1.0, f32(params.cols) - 1.0)", WRONG),
    "inputs clamped": (NORM, "x[first + i] * scale", "clamp(x[first + i], -50.0, 50.0) * scale", WRONG),
    "a reciprocal root of low precision": (NORM, "= inverseSqrt(", "= 1.0005 * inverseSqrt(", WRONG),
    "sum of squares overflows f16": (
        NORM, "squares += x[first + i] * x[first + i]",
        "squares = min(65504.0, squares + x[first + i] * x[first + i])", WRONG,
    ),
    "overflowing form of SiLU": (
        SILU, "gate[id.x] / (1.0 + exp(-gate[id.x]))",
        "gate[id.x] * exp(gate[id.x]) / (1.0 + exp(gate[id.x]))", "NaN",
    ),
    "wrong activation": (SILU, "exp(-gate[id.x])", "exp(-1.702 * gate[id.x])", WRONG),
    "bias missing": (LINEAR, "+ bias[col]", "+ 0.0 * bias[col]", WRONG),
    "bias twice": (LINEAR, "+ bias[col]", "+ 2.0 * bias[col]", WRONG),
    "residual missing": (LINEAR, "+ residual[id.x]", "+ 0.0 * residual[id.x]", WRONG),
    "residual twice": (LINEAR, "+ residual[id.x]", "+ 2.0 * residual[id.x]", WRONG),
    "weight transposed": (LINEAR, "weight[col * params.k + i]", "weight[i * params.n + col]", WRONG),
    "tail dropped when k is no multiple of four": (LINEAR, "i < params.k; i++", "i < params.k / 4u * 4u; i++", WRONG),
    "accumulated in f16": (
        LINEAR, "sum += x[row * params.k + i] * weight[col * params.k + i];",
        "sum += x[row * params.k + i] * weight[col * params.k + i]; sum = unpack2x16float(pack2x16float(vec2(sum))).x;",
        WRONG,
    ),
    "columns of 64 hard-coded": (LINEAR, "row * params.k + i] * w", "row * 64u + i] * w", BEHIND),
    "rotary pairs interleaved": (ROPE, "x[id.x + params.half]", "x[id.x + 1u]", WRONG),
    "rotary sign": (ROPE, "cos[at] - x", "cos[at] + x", WRONG),
    "rotary position off by one": (ROPE, "positions[", "1u + positions[", BEHIND),
    "rotary remainder not copied": (ROPE, "    } else {\n        out[id.x] = x[id.x];\n    }", "    }", "not written"),
    "rotary base constant": (ANGLES, "params.base", "(10000.0 + 0.0 * params.base)", WRONG),
    "rotary exponent": (ANGLES, "-2.0 * f32", "-1.0 * f32", WRONG),
    "heads mapped by remainder": (
        ATTENTION, "head / (params.heads / params.kv_heads)",
        "head % params.kv_heads", WRONG,
    ),
    "causal mask off by one": (ATTENTION, "params.start + token + 1u", "max(1u, params.start + token)", WRONG),
    "mask without the past": (ATTENTION, "params.start + token + 1u", "token + 1u + 0u * params.start", WRONG),
    "mask sees the future": (ATTENTION, "params.start + token + 1u", "params.start + params.tokens", WRONG),
    "scale missing": (ATTENTION, "sum * params.scale", "sum * (1.0 + 0.0 * params.scale)", WRONG),
    "scale twice": (ATTENTION, "sum * params.scale", "sum * params.scale * params.scale", WRONG),
    "scale by 1/d": (ATTENTION, "sum * params.scale", "sum / f32(params.head_dim) + 0.0 * params.scale", WRONG),
    "maximum of the scores started at -1": (ATTENTION, "var top = -3.4028234663852886e38", "var top = -1.0", WRONG),
    "maximum of the scores started at -1e4": (
        shipped("attention.decode"), "const LOWEST = -3.4028234663852886e38", "const LOWEST = -1e4", "NaN",
    ),
    "duplicates in top k": (TOP_K, "!taken && (", "(!taken || j == 1u) && (", WRONG),
    "strides ignored": (COPY, "i2 * params.s2", "i2 * params.d3 + 0u * params.s2", BEHIND),
    "offset ignored": (COPY, "params.offset +", "0u * params.offset +", WRONG),
    "a row more than there is": (EMBEDDING, "ids[id.x / params.cols] *", "(ids[id.x / params.cols] + 1u) *", BEHIND),
    "index arithmetic in f16": (
        EMBEDDING, "out[id.x] = weight[ids[id.x / params.cols] * params.cols + id.x % params.cols]",
        "let at = f32(ids[id.x / params.cols] * params.cols + id.x % params.cols);"
        " out[id.x] = weight[u32(unpack2x16float(pack2x16float(vec2(at))).x)]", WRONG,
    ),
    "ids cut to eight bits": (EMBEDDING, "ids[id.x / params.cols] *", "(ids[id.x / params.cols] & 255u) *", WRONG),
    "halves summed in f16": (
        HALF_SUM, "total += f32(x[id.x * params.cols + i]);",
        "total = f32(f16(total) + x[id.x * params.cols + i]);", WRONG,
    ),
    "odd last half lost": (
        PACKED, "select(0.0, x[min(i + 1u, params.n - 1u)], i + 1u < params.n)",
        "x[i + 1u]; if (i + 1u == params.n) { return; }", "not written",
    ),
    "nibbles in another order": (FOUR_BIT, "vec4<u32>(0u, 4u, 8u, 12u)", "vec4<u32>(4u, 0u, 12u, 8u)", WRONG),
    "zero point missing": (FOUR_BIT, "middle = 8.0", "middle = 0.0", WRONG),
}  # fmt: skip
