"""The faults of CONFORMANCE.md's catalogue that a rewrite of WGSL can make, each as edits of a kernel's text.

Rewrites go by tokens and know no types: one that does not compile is no mutant, and whoever runs it leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pytest_webgpu.kernels.body import Body, Edit
from pytest_webgpu.kernels.kernel import Binding, KernelSource
from pytest_webgpu.kernels.statements import Range, Statement, arguments
from pytest_webgpu.kernels.tokens import Token, match_end

_HALVES = "0xffffe000u"  # leaves of an f32 the ten bits of mantissa that an f16 has
_ZEROES = ("0", "0u", "0.0", "0f", "0.0f", "0.", "0.0h")


def bounds(b: Body) -> Iterator[Edit]:
    """Guards and loops one off, taken out, or rounded to whole vectors and workgroups."""
    places = {i: s for s in b.statements if s.kind in ("if", "for", "while") for i in range(*s.head)}
    swaps = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    for i, left, right, whole in b.operators(*swaps):
        sign, place = b.tokens[i].text, places.get(i)
        what = {"if": "guard", "for": "loop bound", "while": "loop bound"}[place.kind] if place else "comparison"
        rising = sign in ("<", ">=")  # i < n, i >= n: the index stands left
        if not (sign == ">" and right in _ZEROES):  # of an unsigned number always true: an endless loop
            yield b.edit(f"{what}: {swaps[sign]} for {sign}", whole, f"{left} {swaps[sign]} {right}")
        shorter = f"({left}) + 1 {sign} {right}" if rising else f"{left} {sign} ({right}) + 1"
        yield b.edit("last element left out", whole, shorter)
        for unit in ("4", "64"):
            if rising and not right[0].isdigit():
                yield b.edit(
                    f"tail dropped: multiples of {unit} only", whole, f"{left} {sign} ({right}) / {unit} * {unit}"
                )
    for s in b.statements:
        if s.kind == "if" and not s.other:
            leaves = bool(s.body) and s.body[-1].kind in ("return", "break", "continue")
            yield b.edit("no bounds check", s.head, "(false)" if leaves else "(true)")
        if s.kind == "for" and s.update is not None and b.tokens[s.update.head[0] + 1].text == "+=":
            brace = b.tokens[s.at[1] - 1]
            yield Edit(
                "one pass of a strided loop only", b.tokens[s.at[0]].line, ((brace.start, brace.start, " break; "),)
            )


def sizes(b: Body) -> Iterator[Edit]:
    """A size from the uniforms replaced by a number throughout the function."""
    uniforms = {u.name: u for u in b.kernel.bindings if u.space == "uniform"}
    found: dict[str, list[Range]] = {}
    for i, token in enumerate(b.tokens[:-2]):
        uniform = uniforms.get(token.text)
        if uniform is None or b.tokens[i - 1].text == ".":
            continue
        member = b.tokens[i + 1].text == "."
        scalar = _field_scalar(b.kernel, uniform, b.tokens[i + 2].text) if member else uniform.type.scalar
        if scalar in ("u32", "i32"):
            at = (i, i + 3) if member else (i, i + 1)
            found.setdefault(b.text(at), []).append(at)
    for name, places in found.items():
        parts = tuple((b.tokens[a].start, b.tokens[e - 1].end, "256") for a, e in places)
        yield Edit(f"size hard-coded: 256 for {name}", b.tokens[places[0][0]].line, parts)


def _field_scalar(kernel: KernelSource, uniform: Binding, field: str) -> str | None:
    fields = kernel.struct(uniform.type.struct).fields if uniform.type.struct else ()
    return next((f.type.scalar for f in fields if f.name == field and not f.type.is_array), None)


def synchronisation(b: Body) -> Iterator[Edit]:
    """Barriers taken out, or left out for the last steps of a tree."""
    tree = {i: s for s in b.statements if s.kind in ("for", "while", "loop") for i in range(*s.at)}
    for name, whole, _ in b.calls("workgroupBarrier", "storageBarrier"):
        yield b.edit("barrier missing", (whole[0], whole[1] + 1), "")
        step = _halved(b, tree[whole[0]]) if whole[0] in tree else None
        if step is not None:
            yield b.edit("last steps without barriers", (whole[0], whole[1] + 1), f"if ({step} > 16) {{ {name}(); }}")
    for _, whole, given in b.calls("workgroupUniformLoad"):
        yield b.edit("barrier missing", whole, f"(*({given[0]}))")
    for p in b.function.declaration.members:
        builtin = p.attribute("builtin")
        if builtin is not None and "subgroup_size" in str(builtin.arguments[0]):
            parts = tuple((t.start, t.end, "32u") for t in b.tokens if t.text == p.name)
            yield Edit("subgroup size assumed", b.function.line, parts)


def _halved(b: Body, loop: Statement) -> str | None:
    """The variable that a loop halves in each step."""
    for s in loop.walk():
        if s.kind == "plain" and s.head[1] - s.head[0] >= 3:
            words = [t.text for t in b.tokens[s.head[0] : s.head[1]]]
            if words[1] in (">>=", "/=") or (
                words[1] == "=" and words[2] == words[0] and words[3:4] in (["/"], [">>"])
            ):
                return words[0]
    return None


def numbers(b: Body) -> Iterator[Edit]:
    """Unsafe forms of softmax, norms and activations."""
    for name, whole, given in b.calls("exp", "exp2"):
        inner = (whole[0] + 2, whole[1] - 1)
        minus = next((i for i, _, _, w in b.operators("-") if w == inner), None)
        if minus is not None:
            yield b.edit("maximum not subtracted", whole, f"{name}({b.text((inner[0], minus))})")
        if given[0].startswith("-"):
            yield b.edit("wrong activation", whole, f"{name}(1.702 * {given[0]})")
            yield b.edit("overflowing form of an exponential", whole, f"(1.0 / {name}({given[0][1:]}))")
    for name, whole, given in b.calls("inverseSqrt", "sqrt"):
        inner = (whole[0] + 2, whole[1] - 1)
        for _, left, right, at in b.operators("+"):
            if at == inner:
                outside = f"(1.0 / (sqrt({left}) + {right}))" if name == "inverseSqrt" else f"(sqrt({left}) + {right})"
                yield b.edit("eps outside the root", whole, outside)
                mean, _, divisor = left.rpartition(" / ")
                if mean:
                    yield b.edit("eps before the mean", inner, f"({mean} + {right}) / {divisor}")
                yield b.edit("eps constant", inner, f"{left} + 1e-5")
        yield b.edit("low-precision root", whole, f"bitcast<f32>(bitcast<u32>({name}({given[0]})) & {_HALVES})")
    for i, _, right, at in b.operators("/"):
        if right.startswith("f32("):
            yield b.edit("division by n - 1", at, f"{b.text((at[0], i))} / ({right} - 1.0)")
            yield b.edit("division by a padded n", at, f"{b.text((at[0], i))} / (4.0 * ceil({right} / 4.0))")
    for name, whole, given in b.calls("max", "min"):
        yield b.edit(f"{name} mistaken", whole, f"{'min' if name == 'max' else 'max'}({', '.join(given)})")


def precision(b: Body) -> Iterator[Edit]:
    """Sums in ten bits of mantissa, sums of squares that f16 cannot hold, inputs clamped."""
    shared = {w.name: w.type for w in b.kernel.workgroup}
    floats = {t.text for i, t in enumerate(b.tokens) if b.tokens[i - 1].text == "var" and _is_float(b, i)}
    for s in b.statements:
        if s.kind != "plain" or s.head[1] - s.head[0] < 3:
            continue
        root = b.tokens[s.head[0]].text
        sign = next((i for i in range(*s.head) if b.tokens[i].text in ("=", "+=") and b.tokens[i].kind == "sign"), None)
        of_shared = root in shared and shared[root].scalar == "f32" and shared[root].components == 1
        if sign is None or not (of_shared or root in floats):
            continue
        target, value = b.text((s.head[0], sign)), b.text((sign + 1, s.head[1]))
        value = f"{target} + ({value})" if b.tokens[sign].text == "+=" else value
        yield b.edit("f16 accumulation", s.head, f"{target} = bitcast<f32>(bitcast<u32>({value}) & {_HALVES})")
        if b.tokens[sign].text == "+=" or "fma" in value:
            yield b.edit("f16 overflow of a sum", s.head, f"{target} = min({value}, 65504.0)")
    for binding, whole, _, written in b.accesses():
        element = binding.type.element
        if element is not None and not written and element.scalar in ("f32", "f16"):
            kind = element.text
            yield b.edit("clamped input", whole, f"clamp({b.text(whole)}, {kind}(-10.0), {kind}(10.0))")


def _is_float(b: Body, i: int) -> bool:
    """Whether `var NAME = ...` at i is a scalar f32 by its first value."""
    value = b.tokens[i + 2] if b.tokens[i + 1].text == "=" else None
    if value is None:
        return b.tokens[i + 1].text == ":" and b.tokens[i + 2].text == "f32"
    value = b.tokens[i + 3] if value.text == "-" else value
    return value.text == "f32" or (value.kind == "number" and ("." in value.text or value.text.endswith("f")))


def terms(b: Body) -> Iterator[Edit]:
    """Terms and factors missing, doubled or of the wrong sign: scales, biases, residuals, strides, offsets, starts."""
    indices = {i for _, _, index, _ in b.accesses() for i in range(*index)}
    for i, left, right, at in b.operators("+", "-", "*", "/", "%"):
        sign = b.tokens[i].text
        what = "term" if sign in "+-" else "factor"
        yield b.edit(f"{what} missing: {right}", at, left)
        if sign in "+*":
            yield b.edit(f"{what} missing: {left}", at, right)
        if sign == "+" and " * " in left and "(" not in left:
            first, _, second = left.rpartition(" * ")
            yield b.edit("transposed", at, f"({right}) * {second} + {first}")
        if i in indices:
            continue  # an index doubled or turned round is a cruder fault than one that lacks a term
        if sign in "+*":
            yield b.edit(f"{what} twice: {right}", at, f"{left} {sign} {right} {sign} {right}")
        wrong = {"+": "-", "-": "+", "/": "%", "%": "/"}.get(sign)
        if wrong is not None:
            yield b.edit(f"{wrong} for {sign}", at, f"{left} {wrong} {right}")
    updates = [s.update for s in b.statements if s.update is not None]
    for s in b.statements:
        if s.kind == "plain" and s.head[1] - s.head[0] > 2 and s not in updates:
            for i in range(*s.head):
                if b.tokens[i].text in ("+=", "*="):
                    yield b.edit("sum overwritten", (i, i + 1), "=")


def layout(b: Body) -> Iterator[Edit]:
    """Reads one past, halves of a word swapped, indices in the precision of f16, sine for cosine."""
    seen: set[str] = set()
    for binding, _, index, written in b.accesses():
        text = b.text(index)
        if not written and text not in _ZEROES:
            yield b.edit("read one past", index, f"({text}) + 1")
        if binding.name not in seen and text not in _ZEROES:
            seen.add(binding.name)
            lost = f"(0xffffffffu << u32(max(0, i32(firstLeadingBit(u32({text}))) - 10)))"
            yield b.edit("index in f16", index, f"u32({text}) & {lost}")
    for name, whole, given in b.calls("sin", "cos"):
        yield b.edit("sine for cosine", whole, f"{'cos' if name == 'sin' else 'sin'}({given[0]})")
    for _, whole, given in b.calls("unpack2x16float"):
        yield b.edit("halves swapped", whole, f"unpack2x16float({given[0]}).yx")
    for _, whole, given in b.calls("pack2x16float"):
        yield b.edit("halves swapped", whole, f"pack2x16float(({given[0]}).yx)")
    for _, left, right, at in b.operators("<<", ">>"):
        yield b.edit(f"shift missing: {right}", at, left)


def state(b: Body) -> Iterator[Edit]:
    """Outputs left as they were or added to, sums that begin elsewhere, an input written."""
    for binding, s, sign in b.stores():
        target, value = b.text((s.head[0], sign)), b.text((sign + 1, s.head[1]))
        yield b.edit("output not written", (s.head[0], s.head[1] + 1), "")
        if not binding.type.atomic:
            yield b.edit("added to what was there", s.head, f"{target} = {target} + ({value})")
    for i, token in enumerate(b.tokens):
        if token.text == "var" and _is_float(b, i + 1) and b.tokens[i + 3].text in _ZEROES:
            yield b.edit("sum begins at 1", (i + 3, i + 4), "1.0")
    written = next((x for x in b.stored.values() if x.access == "read" and x.type.element is not None
                    and x.name in b.function.uses and b.function.declaration.attribute("compute")), None)  # fmt: skip
    if written is not None and written.type.element is not None:
        brace, declared = b.tokens[0], b.kernel.module.of("variable")[written.name].line
        opened = _access(b.kernel, written.name)
        store = f" {written.name}[0] = {written.type.element.text}();"
        yield Edit("input written", declared, (opened, (brace.end, brace.end, store)))


def _access(kernel: KernelSource, name: str) -> tuple[int, int, str]:
    """The edit that makes a read-only variable writable."""
    tokens = kernel.module.tokens
    at = next(i for i, t in enumerate(tokens) if t.text == name and tokens[i - 1].kind == "close")
    opened = max(i for i in range(at) if tokens[i].kind == "open" and tokens[i - 1].text == "var")
    return tokens[opened].end, tokens[at - 1].start, "storage, read_write"


MAKERS: tuple[Callable[[Body], Iterator[Edit]], ...] = (
    bounds, sizes, synchronisation, numbers, precision, terms, layout, state)  # fmt: skip


def whole_text(kernel: KernelSource) -> Iterator[Edit]:
    """Faults outside functions: shared arrays too small, maxima that begin too high."""
    for w in kernel.workgroup:
        if w.type.is_array and w.type.count is not None:
            tokens = kernel.module.tokens
            at = next(i for i, t in enumerate(tokens) if t.text == w.name and tokens[i + 1].text == ":")
            opened = next(i for i in range(at, len(tokens)) if tokens[i].kind == "open")
            place = arguments(tokens, (opened + 1, match_end(tokens, opened)))[-1]
            start, end = tokens[place[0]].start, tokens[place[1] - 1].end
            yield Edit("shared array too small", w.line, ((start, end, f"({kernel.text[start:end]}) / 2"),))
    for before, token in zip(kernel.module.tokens, kernel.module.tokens[1:], strict=False):
        if before.text == "-" and token.kind == "number" and _is_lowest(token):
            for begin in ("0.0", "-1e4", "-1e9"):
                yield Edit(f"maximum begins at {begin}", token.line, ((before.start, token.end, begin),))


def _is_lowest(token: Token) -> bool:
    exponent = token.text.lower().rstrip("fh").partition("e")[2]
    return (exponent.lstrip("+").isdigit() and int(exponent) >= 30) or token.text.startswith("65504")
