"""Each lint finds its fault, names the line, and leaves the right form alone."""

import pytest

from pytest_webgpu.kernels.lints import Finding, lint
from pytest_webgpu.kernels.source import parse_source

HEAD = """override WG: u32 = 64;
struct P { n: u32, base: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
var<workgroup> s: array<f32, WG>;
"""
MAIN = """@compute @workgroup_size(WG) fn main(@builtin(local_invocation_id) lid: vec3<u32>,
 @builtin(workgroup_id) wid: vec3<u32>) { s[lid.x] = x[lid.x]; out[wid.x] = s[0] + p.base;
"""  # the body begins in line 9


def findings(body: str, head: str = HEAD, helper: str = "", **header: object) -> list[Finding]:
    text = f"{head}{MAIN}{body}\n}}\n{helper}"
    return list(lint(parse_source(text, "k.wgsl", {"op": "softmax", "workgroups": ["rows"], **header})))


def rules(body: str, **more: object) -> list[tuple[str, int]]:
    return [(f.rule, f.line) for f in findings(body, **more)]  # type: ignore[arg-type]


TREE = """for (var i = lid.x; i < p.n; i += WG) { s[lid.x] += x[i]; }
for (var i = WG / 2u; i > 0u; i >>= 1u) { workgroupBarrier(); if (lid.x < i) { s[lid.x] += s[lid.x + i]; } }
workgroupBarrier(); let rows = p.n + wid.x; if (rows > 3u) { workgroupBarrier(); }
loop { if (rows < 2u) { break; } workgroupBarrier(); }
for (var i = 0u; i < p.n; i++) { if (x[i] > 1.0) { workgroupBarrier(); } }
if (workgroupUniformLoad(&s[wid.x]) > 1.0) { return; } workgroupBarrier();"""


@pytest.mark.parametrize(("body", "found"), [
    (TREE, []),
    ("if (lid.x < 32u) {\n workgroupBarrier(); }", [("barrier-not-uniform", 10)]),
    ("if (lid.x >= p.n) { return; }\nworkgroupBarrier();", [("barrier-after-return", 10)]),
    ("if (p.n == 0u) { return; }\nworkgroupBarrier();", []),
    ("for (var i = lid.x; i < p.n; i += WG) { workgroupBarrier(); }", [("barrier-not-uniform", 9)]),
    ("loop { workgroupBarrier(); if (x[lid.x] > 0.0) { break; } }", [("barrier-not-uniform", 9)]),
    ("let n = u32(out[0]);\nfor (var i = 0u; i < n; i++) { storageBarrier(); }", [("barrier-not-uniform", 10)]),
    ("var b = false; if (s[1] > 0.0) { b = true; }\nif (b) { workgroupBarrier(); }", [("barrier-not-uniform", 10)]),
    ("out[0] = workgroupUniformLoad(&s[lid.x]);", [("barrier-not-uniform", 9)]),
    ("switch (lid.x) { case 1u: { break; } default: { } } workgroupBarrier();", []),
    ("switch (wid.x) { case 1u, 2u: { workgroupBarrier(); } default: { } }", []),
    ("while (p.n > lid.y) {\n  if (wid.x > 1u) { continue; }\n  workgroupBarrier(); }", [("barrier-not-uniform", 11)]),
])  # fmt: skip
def test_barriers(body: str, found: list[tuple[str, int]]) -> None:
    assert rules(body) == found


def test_barriers_in_helpers_and_structs() -> None:
    helper = "fn total(v: f32) -> f32 { s[0] = v; workgroupBarrier(); return s[0]; }"
    assert rules("out[1] = total(1.0);", helper=helper) == []
    assert rules("if (lid.x > 1u) { out[1] = total(1.0); }", helper=helper) == [("barrier-not-uniform", 11)]
    early = "fn part(v: u32) { if (v > 1u) { return; }\n workgroupBarrier(); }"
    assert rules("part(wid.x);", helper=early) == []
    assert rules("part(lid.x);", helper=early) == [("barrier-after-return", 12)]
    ids = "struct Ids { @builtin(workgroup_id) w: vec3u, @builtin(local_invocation_index) l: u32 }\n"
    text = (
        HEAD
        + ids
        + "@compute @workgroup_size(WG) fn main(i: Ids) { out[0] = x[0] * p.base;\n"
        + "if (i.%s > 1u) { workgroupBarrier(); } }"
    )
    header = {"op": "softmax", "workgroups": ["rows"]}
    assert lint(parse_source(text % "w.x", None, header)) == ()
    assert [f.line for f in lint(parse_source(text % "l", None, header))] == [9]


def test_a_reason_names_what_the_flow_depends_on() -> None:
    after = findings("let mine = lid.x;\nif (mine > 3u) {\n return;\n}\nworkgroupBarrier();")[0]
    assert after.line == 13
    assert after.message == ("workgroupBarrier where not every invocation comes: after the return in line 11, "
                             "which not every invocation takes (line 10 depends on `mine`)")  # fmt: skip


@pytest.mark.parametrize(("body", "found"), [
    ("out[0] = pow(x[0], 2.0);", ["pow-negative"]),
    ("let d = x[0] - 1.0; out[0] = pow(d, 2.0);", ["pow-negative"]),
    ("out[0] = pow(-p.base, 2.0);", ["pow-negative"]), ("out[0] = pow(p.base, -f32(lid.x) / 64.0);", []),
    ("let d = x[0] * x[0]; out[0] = pow(d + 1e-6, 0.5);", []),
    ("out[0] = pow(max(x[0], 0.0), 0.5) + pow(2.0, x[1]);", []),
    ("out[0] = pow(abs(x[0]) / exp(x[1]), 0.5);", []), ("let v = vec2<f32>(x[0]); out[0] = pow(dot(v, v), 0.5);", []),
    ("if (x[0] != x[0]) { out[0] = 1.0; }", ["nan-test"]),
    ("out[0] = select(0.0, 1.0, x[lid.x] == x[lid.x]);", ["nan-test"]),
    ("if (x[0] != x[1] || x[0] + 1.0 != x[0]) { out[0] = 1.0; }", []),
    ("out[0] = f32(1u << 32u);", ["shift-32"]), ("out[0] = f32(p.n >> (WG / 2u));", ["shift-32"]),
    ("out[0] = f32((p.n >> 31u) | (1u << p.n));", []), ("var v = p.n; v <<= 40u; out[0] = f32(v);", ["shift-32"]),
])  # fmt: skip
def test_numbers(body: str, found: list[str]) -> None:
    assert [f.rule for f in findings(body)] == found
    assert [f.line for f in findings(body)] == [9] * len(found)


@pytest.mark.parametrize(("body", "found"), [
    ("z[lid.x] += 1.0;", ["workgroup-zero"]), ("let v = z[0]; z[1] = v;", ["workgroup-zero"]),
    ("atomicAdd(&count, 1u); z[0] = 1.0;", ["workgroup-zero"]), ("add_one(); z[0] = 1.0;", ["workgroup-zero"]),
    ("z[lid.x] = z[0];", ["workgroup-zero"]), ("z[lid.x] = 0.0; z[lid.x] += 1.0;", []),
    ("if (lid.x == 0u) { atomicStore(&count, 0u); } workgroupBarrier(); atomicAdd(&count, 1u);", []),
])  # fmt: skip
def test_zeroed_workgroup_memory(body: str, found: list[str]) -> None:
    head = HEAD.replace(
        "var<workgroup>", "var<workgroup> z: array<f32, 64>; var<workgroup> count: atomic<u32>; var<workgroup>"
    )
    assert [f.rule for f in findings(body, head, helper="fn add_one() { z[3] *= 2.0; }")] == found


def test_workgroup_memory_counts_the_largest_tuning() -> None:
    assert rules("", tune={"WG": [64, 4096]}) == []
    assert rules("", tune={"WG": [64, 4097]}) == [("workgroup-memory", 6)]
    assert findings("", tune={"WG": [64, 4097]})[0].message == "16400 bytes of workgroup memory, 16384 are allowed"
    kernel = parse_source(HEAD + MAIN + "}", None, {"op": "a", "workgroups": ["1"]})
    assert [f.rule for f in lint(kernel, {"max-compute-workgroup-storage-size": 128})] == ["workgroup-memory"]


def test_bindings() -> None:
    spare = HEAD + "@group(0) @binding(3) var<storage> weight: array<f32>;\n"
    assert rules("", head=spare) == [("unused-binding", 7)]
    assert rules("out[0] = weight[0];", head=spare) == []
    assert rules("out[0] = weight[0];", head=spare, bind={"weight": "out"}) == [("overlapping-bindings", 7)]
    assert rules("out[0] = weight[0];", head=spare, bind={"weight": "x"}) == []


def test_features() -> None:
    assert rules("out[0] = f32(f16(x[0]));") == [("feature-not-enabled", 1)]
    assert rules("out[0] = subgroupAdd(x[0]);") == [("feature-not-enabled", 1)]
    assert rules("out[0] = subgroupAdd(f32(f16(x[0])));", head="enable f16, subgroups;\n" + HEAD) == []
    typed = parse_source("alias elem = f32;" + HEAD + MAIN + "out[0] = f32(elem(1.0)); }", None,
                         {"op": "a", "workgroups": ["1"], "types": {"elem": ["f32", "f16"]}})  # fmt: skip
    assert [lint(k) for k in typed.variants()] == [(), ()]
