"""Kernels that are out to harm who runs them: each must end in one failure that says why, and harm nothing else."""

from tests.faulty_kernels import ADD

BODY = "out[i] = a[i] + b[i];"
WRITE = "    if (i < params.n) {\n        out[i] = a[i] + b[i];\n    }\n"


def body(text: str, before: str = "") -> str:
    """ADD with its sum replaced, and declarations in front of its entry point."""
    assert BODY in ADD
    return ADD.replace(BODY, text).replace("@compute", f"{before}\n@compute")


def everything(text: str, before: str = "") -> str:
    """ADD with all that follows `let i = id.x;` replaced."""
    assert WRITE in ADD
    return ADD.replace(WRITE, text).replace("@compute", f"{before}\n@compute")


def header(*lines: str) -> str:
    return ADD.replace("//! guarded = true\n", "".join(f"//! {line}\n" for line in lines))


def chain(count: int) -> str:
    calls = "".join(f"fn f{n}(x: f32) -> f32 {{ return f{n - 1}(x) + f{n - 1}(x); }}\n" for n in range(1, count))
    return f"fn f0(x: f32) -> f32 {{ return x; }}\n{calls}"


SPIN = "var<workgroup> lock: atomic<u32>;"
TOOK, HUNG, WRONG = "took the process down", "hung", "wrong value"

# name: (kernel, words of what is raised)
BAD = {
    # compile bombs
    "parentheses": (body(f"out[i] = {'(' * 20000}a[i] + b[i]{')' * 20000};"), TOOK),
    "minus signs": (body(f"out[i] = {'-(' * 20000}a[i]{')' * 20000};"), TOOK),
    "a long sum": (body(f"out[i] = a[i]{' + b[i]' * 30000};"), TOOK),
    "blocks in blocks": (body("{" * 20000 + "}" * 20000), "nesting"),
    "ifs in ifs": (body("if (i > 1u) {" * 5000 + BODY + "}" * 5000), "nesting"),
    "loops in loops": (body("loop {" * 500 + "break;" + "} break; " * 499 + "}"), "nesting"),
    "calls that double": (body("out[i] = f24(a[i]);", chain(25)), HUNG),
    "a switch of 20,000": (body("switch i {" + "".join(f"case {n}u: {{ out[i] = {n}.0; }}" for n in range(20000))
                                + "default: {} }"), HUNG),
    "an array of 100,000 constants": (body("var t = array<f32, 100000>(" + "1.0," * 100000 + "); out[i] = t[i];"),
                                      "lost the device"),
    "a name of a megabyte": (body(f"let {'x' * (1 << 20)} = 1.0;"), "not written"),
    "a constant that overflows": (body("out[i] = 3e38 * 3e38 * 3e38;"), "cannot represent"),
    "a division by zero": (body("const zero = 0; out[i] = f32(1 / zero);"), "Division by zero"),
    "recursion": (body("out[i] = f(a[i]);", "fn f(x: f32) -> f32 { return f(x); }"), "recursive"),
    "recursion of two": (body("out[i] = f(a[i]);", "fn f(x: f32) -> f32 { return g(x); }\n"
                              "fn g(x: f32) -> f32 { return f(x); }"), "cyclic"),
    "a type of itself": (body(BODY, "struct S { s: S }"), "holds itself"),
    "an alias of itself": (body(BODY, "alias A = B; alias B = A;"), "cyclic"),
    "an extension that there is not": (ADD.replace("struct Params", "enable telepathy;\nstruct Params"), "telepathy"),
    # memory
    "a private array of 100,000": (body("var t: array<f32, 100000>; t[i] = a[i]; out[i] = t[i + 1u];"), HUNG),
    "a private array of a billion": (body("var t: array<f32, 1000000000>; t[i] = a[i]; out[i] = t[i + 1u];"),
                                     "exceeds limit"),
    "workgroup memory of 64 MB": (body("w[i] = a[i]; out[i] = w[i + 1u];", "var<workgroup> w: array<f32, 16777216>;"),
                                  "bytes of workgroup memory"),
    "scratch of a terabyte": (header('[scratch]', 'partial = {dtype = "f32", shape = ["n", "1000000000000"]}').replace(
        "@compute", "@group(0) @binding(4) var<storage, read_write> partial: array<f32>;\n@compute"),
                              "4000000000000 bytes"),
    "forty bindings": (body(BODY, "".join(f"@group(0) @binding({n}) var<storage, read_write> x{n}: array<f32>;\n"
                                          for n in range(10, 50))), "no argument"),
    # never ends
    "an endless loop": (body("loop { if (a[0] == 1.25) { break; } }"), HUNG),
    "a loop that counts down": (body("for (var k = 8u; k >= 0u; k--) { out[i] = a[i] + f32(k); }"), HUNG),
    "a trillion steps": (body("for (var k = 0u; k < 1000000u; k++) { for (var l = 0u; l < 1000000u; l++) "
                              "{ out[i] += a[k]; } }"), HUNG),
    "a lock that nobody opens": (everything("    atomicStore(&lock, 1u);\n"
                                            "    while (atomicLoad(&lock) != 0u) { }\n", SPIN), "not written"),
    "one lane that stays": (everything("    while (i == 3u && a[0] != 1.25) { }\n" + WRITE), HUNG),
    "a barrier in an endless loop": (everything("    loop { workgroupBarrier(); if (a[0] == 1.25) { break; } }\n"
                                                + WRITE), HUNG),
    # writes where it should not
    "writes everywhere": (everything("    for (var k = 0u; k < 4096u; k++) { out[k] = 1.0; }\n"), "past the end"),
    "writes before the start": (body("out[i - 100u] = a[i]; " + BODY), WRONG),
    "all lanes on one element": (body("out[0] = a[i]; " + BODY), WRONG),
    # headers
    "a billion workgroups": (header("").replace('["ceil_div(n, 64)"]', '["n * 1000000000"]'), "workgroups"),
    "no workgroups at all": (header("").replace('["ceil_div(n, 64)"]', '["n - n"]'), "not written"),
    "a workgroup of 65,536": (ADD.replace("@workgroup_size(64)", "@workgroup_size(65536)"), "Workgroup size"),
    "a workgroup of none": (ADD.replace("@workgroup_size(64)", "@workgroup_size(0)"), ""),
    "python in the header": (header("").replace("ceil_div(n, 64)", "__import__('os').abort()"), "__import__"),
    "an expression too long": (header("").replace("ceil_div(n, 64)", "n" + " + n" * 200), "200"),
    "a power in the header": (header("").replace("ceil_div(n, 64)", "9 ** 9 ** 9"), ""),
    "a header that is no TOML": (header("guarded = [[["), "TOML"),
    "an op that there is not": (ADD.replace('op = "add"', 'op = "subtract"'), "subtract"),
    "an entry that there is not": (header('entry = "other"'), "other"),
    "a texture": (body(BODY, "@group(0) @binding(9) var picture: texture_2d<f32>;"), "textures"),
}  # fmt: skip
