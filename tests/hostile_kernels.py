"""Kernels that hang, burst, overrun or are none: what is put into `add`, and the words that its failure must have."""

from tests.faulty_kernels import ADD

BODY = "    if (i < params.n) {\n        out[i] = a[i] + b[i];\n    }\n"
assert BODY in ADD
FINE = "out[i] = a[i] + b[i];"


def inside(statements: str, module: str = "") -> str:
    """add with these statements in place of its own, and `module` before its entry point."""
    return ADD.replace(BODY, statements + "\n").replace("@compute", module + "\n@compute")


def guarded(statements: str, module: str = "") -> str:
    return inside(f"if (i < params.n) {{ {statements} }}", module)


def chain(depth: int) -> str:
    return "fn link0(x: f32) -> f32 { return x; }\n" + "".join(
        f"fn link{n}(x: f32) -> f32 {{ return link{n - 1}(x) + 1.0; }}\n" for n in range(1, depth)
    )


SPIN = "loop { if (out[0] == 1.25) { break; } }"
HOSTILE = {
    # it does not end
    "endless loop": (inside(SPIN + FINE), "hung"),
    "endless loop in one invocation": (inside(f"if (i == 0u) {{ {SPIN} }} {FINE}"), "hung"),
    "endless loop in a function": (guarded("out[i] = forever(a[i]);", "fn forever(x: f32) -> f32 { var y = x; loop { y += out[0]; if (y == 0.125) { break; } } return y; }"), "hung"),
    "nested loops without end": (guarded("var s = 0.0; for (var j = 0u; j < 4000000000u; j++) { for (var k = 0u; k < 4000000000u; k++) { s += out[0]; } } out[i] = s;"), "hung"),
    "a lock that nobody opens": (guarded("loop { if (b[0] + out[0] == 1.25) { break; } storageBarrier(); } out[i] = a[i];"), "hung|wrong|not compile|does not|uniform"),
    # memory
    "private array of a million": (guarded("var p: array<f32, 1000000>; for (var j = 0u; j < 1000000u; j++) { p[j] = a[i] * f32(j); } out[i] = p[u32(b[i])];"), "hung|died|memory"),
    "private array of 400 MB": (guarded("var p: array<f32, 100000000>; p[i] = a[i]; out[i] = p[u32(b[i])];"), "hung|died|memory|large|exceed"),
    "workgroup memory over the limit": (guarded("big[i % 8192u] = a[i]; out[i] = big[i % 8192u] + b[i];", "var<workgroup> big: array<f32, 8192>;"), "32768 .*16384|workgroup memory"),
    "a gigabyte of workgroup memory": (guarded("big[i] = a[i]; out[i] = big[i] + b[i];", "var<workgroup> big: array<f32, 268435456>;"), "workgroup memory"),
    # the compiler
    "parentheses 100,000 deep": (guarded(f"out[i] = {'(' * 100_000}a[i]{')' * 100_000};"), "process|deep|nest"),
    "a sum of 50,000 terms": (guarded(f"out[i] = a[i]{' + b[i]' * 50_000};"), "process|hung|wrong|deep"),
    "blocks 3,000 deep": (guarded("{" * 3000 + FINE + "}" * 3000), "process|deep|nest|limit"),
    "unary minus 50,000 deep": (guarded(f"out[i] = {'- ' * 50_000}a[i];"), "process|deep|hung"),
    "functions 2,000 deep": (guarded("out[i] = link1999(a[i]);", chain(2000)), "process|hung|wrong|deep"),
    "a function that calls itself": (guarded("out[i] = again(a[i]);", "fn again(x: f32) -> f32 { return again(x) + 1.0; }"), "recurs|again|cycl"),
    "a switch of 20,000 cases": (guarded("switch (i) {" + "".join(f"case {n}u: {{ out[i] = {n}.0; }}" for n in range(20_000)) + "default: { } }"), "hung|wrong|not written|died"),
    # not WGSL
    "a comment without end": (ADD + "/* ", "comment|end"),
    "a zero byte": (ADD.replace("let i", "let \0i"), "mine.wgsl|identifier|character"),
    "half of a kernel": (ADD[: len(ADD) // 2], "mine.wgsl|expected"),
    "an unknown name": (guarded("out[i] = c[i];"), "'c'|c"),
    "an unknown function": (guarded("out[i] = rsqrt(a[i]);"), "rsqrt"),
    "types that do not fit": (guarded("out[i] = i;"), "type|f32|u32"),
    "an infinity": (guarded("out[i] = a[i] / 0.0 + 1e39;"), "1e39|represent|infinit|overflow|finite"),
    "an array of a size that is none": (guarded("var p: array<f32, params.n>; out[i] = p[0];"), "mine.wgsl|const|runtime"),
    "assembly": ("//! op = \"add\"\n//! workgroups = [\"n\"]\nmov eax, 1\nret\n", "mine.wgsl"),
    # what the header or the interface says
    "an argument missing": (ADD.replace("@group(0) @binding(1) var<storage, read> b: array<f32>;\n", "").replace("+ b[i]", ""), "b"),
    "a binding that is no argument": (ADD.replace("@compute", "@group(0) @binding(7) var<storage, read> extra: array<f32>;\n@compute").replace("+ b[i]", "+ b[i] + extra[0]"), "extra"),
    "two bindings of one number": (ADD.replace("@binding(1)", "@binding(0)"), "binding"),
    "a workgroup of 4,096": (ADD.replace("@workgroup_size(64)", "@workgroup_size(4096)"), "4096|workgroup"),
    "a workgroup of none": (ADD.replace("@workgroup_size(64)", "@workgroup_size(0)"), "[Ww]orkgroup|range"),
    "workgroups beyond all bounds": (ADD.replace("ceil_div(n, 64)", "n * 4294967296"), "workgroups"),
    "no workgroups at all": (ADD.replace("ceil_div(n, 64)", "n - n"), "workgroups|not written"),
    "no entry point": (ADD.replace("@compute @workgroup_size(64)\n", ""), "entry point"),
    # it writes what is not its own
    "writes everywhere": (inside("for (var j = 0u; j < 4096u; j++) { out[(i * 7919u + j * 104729u) % 16777216u] = 1.0; }"), "write past the end|wrong|race"),
    "writes far behind the end": (inside(FINE + " out[i + 4294967u] = 3.0; out[params.n + i] = 3.0;"), "write past the end"),
    "writes before the beginning": (inside(FINE + " out[i - 70u] = 1.0;"), "write past the end|wrong value|race"),
    "writes its inputs": (ADD.replace("read> b", "read_write> b").replace(FINE, FINE + " b[i] = 0.0;"), "input written"),
    "writes nothing": (guarded("_ = a[i] + b[i] + out[i];"), "not written"),
    "writes NaN": (guarded("out[i] = sqrt(-1.0 - abs(a[i])) + b[i];"), "NaN|wrong"),
    "an index out of a division by zero": (inside("out[i / (params.n - params.n)] = a[i] + b[i];"), "wrong|not written|write|race"),
}  # fmt: skip
