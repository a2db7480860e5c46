"""Each fault of the catalogue that a rewrite can make: what line it changes, into what, and where it has no place."""

import pytest

from pytest_webgpu.kernels.mutants import Mutant, mutants, spread
from pytest_webgpu.kernels.source import parse_source

HEAD = """alias elem = f32;
struct P { n: u32, eps: f32 }
@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@group(0) @binding(2) var<uniform> p: P;
override WG: u32 = 64;
var<workgroup> s: array<f32, WG>;
@compute @workgroup_size(WG) fn main(@builtin(local_invocation_index) lane: u32) {
"""


def made(body: str) -> list[Mutant]:
    return mutants(parse_source(f"{HEAD}{body}\n}}", "k.wgsl", {"op": "softmax", "workgroups": ["rows"]}))


def changed(m: Mutant) -> str:
    return " | ".join(line[1:].strip() for line in m.diff.splitlines()[2:] if line[0] == "+")


@pytest.mark.parametrize(("line", "fault", "after"), [
    ("if (lane < p.n) { out[lane] = x[lane]; }", "guard: <= for <", "if (lane <= p.n) { out[lane] = x[lane]; }"),
    ("if (lane >= p.n) { return; }", "guard: > for >=", "if (lane > p.n) { return; }"),
    ("if (lane >= p.n) { return; }", "no bounds check", "if (false) { return; }"),
    ("if (lane < p.n) { out[lane] = x[lane]; }", "no bounds check", "if (true) { out[lane] = x[lane]; }"),
    ("if (lane >= p.n) { return; }", "last element left out", "if ((lane) + 1 >= p.n) { return; }"),
    ("if (lane < p.n) { return; }", "tail dropped: multiples of 4 only", "if (lane < (p.n) / 4 * 4) { return; }"),
    ("for (var i = lane; i < p.n; i += WG) { }", "loop bound: <= for <", "for (var i = lane; i <= p.n; i += WG) { }"),
    ("for (var i = lane; i < p.n; i += WG) { }", "one pass of a strided loop only",
     "for (var i = lane; i < p.n; i += WG) {  break; }"),
    ("let a = x[p.n / 2u];", "size hard-coded: 256 for p.n", "let a = x[256 / 2u];"),
    ("let a = x[lane];", "read one past", "let a = x[(lane) + 1];"),
    ("workgroupBarrier();", "barrier missing", ""),
    ("let a = workgroupUniformLoad(&s[0]);", "barrier missing", "let a = (*(&s[0]));"),
    ("for (var t = WG / 2u; t > 0u; t /= 2u) { workgroupBarrier(); }", "last steps without barriers",
     "for (var t = WG / 2u; t > 0u; t /= 2u) { if (t > 16) { workgroupBarrier(); } }"),
    ("while (t > 0u) { workgroupBarrier(); t = t >> 1u; }", "last steps without barriers",
     "while (t > 0u) { if (t > 16) { workgroupBarrier(); } t = t >> 1u; }"),
    ("let e = exp(x[0] - highest);", "maximum not subtracted", "let e = exp(x[0]);"),
    ("let y = v / (1.0 + exp(-v));", "wrong activation", "let y = v / (1.0 + exp(1.702 * -v));"),
    ("let y = v / (1.0 + exp(-v));", "overflowing form of an exponential", "let y = v / (1.0 + (1.0 / exp(v)));"),
    ("let r = inverseSqrt(q / f32(p.n) + p.eps);", "eps outside the root",
     "let r = (1.0 / (sqrt(q / f32(p.n)) + p.eps));"),
    ("let r = inverseSqrt(q / f32(p.n) + p.eps);", "eps before the mean",
     "let r = inverseSqrt((q + p.eps) / f32(p.n));"),
    ("let r = inverseSqrt(q / f32(p.n) + p.eps);", "eps constant", "let r = inverseSqrt(q / f32(p.n) + 1e-5);"),
    ("let r = inverseSqrt(q / f32(p.n) + p.eps);", "term missing: p.eps", "let r = inverseSqrt(q / f32(p.n));"),
    ("let m = q / f32(p.n);", "division by n - 1", "let m = q / (f32(p.n) - 1.0);"),
    ("let m = max(a, b);", "max mistaken", "let m = min(a, b);"),
    ("var acc = 0.0; acc += x[0];", "f16 accumulation",
     "var acc = 0.0; acc = bitcast<f32>(bitcast<u32>(acc + (x[0])) & 0xffffe000u);"),
    ("s[lane] = q;", "f16 accumulation", "s[lane] = bitcast<f32>(bitcast<u32>(q) & 0xffffe000u);"),
    ("var acc = 0.0; acc += x[0];", "f16 overflow of a sum", "var acc = 0.0; acc = min(acc + (x[0]), 65504.0);"),
    ("var acc = 0.0; acc += x[0];", "sum begins at 1", "var acc = 1.0; acc += x[0];"),
    ("acc += x[0];", "sum overwritten", "acc = x[0];"),
    ("let a = x[lane];", "clamped input", "let a = clamp(x[lane], f32(-10.0), f32(10.0));"),
    ("let y = a * p.eps;", "factor missing: p.eps", "let y = a;"),
    ("let y = a * p.eps;", "factor twice: p.eps", "let y = a * p.eps * p.eps;"),
    ("let y = a + bias;", "term twice: bias", "let y = a + bias + bias;"),
    ("let y = a - b * c;", "+ for -", "let y = a + b * c;"),
    ("let g = h / group;", "% for /", "let g = h % group;"),
    ("let a = x[row * p.n + col];", "transposed", "let a = x[(col) * p.n + row];"),
    ("let a = x[row * p.n + col];", "term missing: row * p.n", "let a = x[col];"),
    ("let a = x[i];", "index in f16",
     "let a = x[u32(i) & (0xffffffffu << u32(max(0, i32(firstLeadingBit(u32(i))) - 10)))];"),
    ("let a = cos(t);", "sine for cosine", "let a = sin(t);"),
    ("let a = unpack2x16float(w);", "halves swapped", "let a = unpack2x16float(w).yx;"),
    ("let a = w >> 4u;", "shift missing: 4u", "let a = w;"),
    ("out[lane] = q;", "output not written", ""),
    ("out[lane] = q;", "added to what was there", "out[lane] = out[lane] + (q);"),
    ("var m = -3.4e38;", "maximum begins at -1e4", "var m = -1e4;"),
])  # fmt: skip
def test_fault(line: str, fault: str, after: str) -> None:
    found = [m for m in made(line) if m.fault == fault]
    assert [(m.line, changed(m)) for m in found] == [(9, after)]
    assert found[0].name.startswith(f"k:9:{fault}")


def test_faults_outside_functions() -> None:
    small = [m for m in made("s[lane] = 1.0;") if m.fault == "shared array too small"]
    assert [(m.line, changed(m)) for m in small] == [(7, "var<workgroup> s: array<f32, (WG) / 2>;")]
    written = next(m for m in made("let a = x[0];") if m.fault == "input written")
    assert written.line == 3
    assert "var<storage, read_write> x" in written.text
    assert "x[0] = f32();" in written.text


@pytest.mark.parametrize(("line", "fault"), [
    ("for (var t = WG / 2u; t > 0u; t /= 2u) { }", "loop bound: >= for >"),  # endless
    ("for (var i = 0u; i < p.n; i++) { workgroupBarrier(); }", "last steps without barriers"),
    ("for (var i = 0u; i < p.n; i++) { }", "one pass of a strided loop only"),
    ("let e = exp(a) - highest;", "maximum not subtracted"), ("let v: vec2<f32> = -a;", "term missing: a"),
    ("out[lane] = q;", "f16 accumulation"), ("let a = x[0];", "read one past"),
    ("let m = -1.0;", "maximum begins at 0.0"),
    ("if (lane < p.n) { } else { out[0] = 1.0; }", "no bounds check"), ("out[lane] += q;", "term missing: q"),
])  # fmt: skip
def test_no_place_for_it(line: str, fault: str) -> None:
    assert fault not in [m.fault for m in made(line)]


def test_each_is_one_valid_kernel_with_its_own_name() -> None:
    kernel = parse_source(f"{HEAD}if (lane < p.n) {{ out[lane] = x[lane] * p.eps + x[lane] * p.eps; }}\n}}", "k.wgsl",
                          {"op": "softmax", "workgroups": ["rows"]})  # fmt: skip
    all_of_them = mutants(kernel)
    assert len({m.name for m in all_of_them}) == len({m.text for m in all_of_them}) == len(all_of_them)
    assert {kernel.rewritten(m.text).name for m in all_of_them} == {"k"}
    assert sorted(m.line for m in all_of_them) == [m.line for m in all_of_them]


def test_only_reached_functions_are_rewritten() -> None:
    unused = made("out[0] = x[0]; }\nfn unused(a: f32, b: f32) -> f32 { return max(a, b);")
    assert "max mistaken" not in [m.fault for m in unused]


def test_spread_takes_each_kind_of_fault_before_a_second_of_one() -> None:
    all_of_them = made("out[lane] = x[lane] * p.eps + x[lane + 1u] * p.eps * p.eps;")
    kinds = {m.fault.partition(":")[0] for m in all_of_them}
    few = spread(all_of_them, len(kinds))
    assert {m.fault.partition(":")[0] for m in few} == kinds
    assert len(spread(all_of_them, 3)) == 3
