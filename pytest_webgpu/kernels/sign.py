"""Whether an expression may be negative, as far as the text shows."""

from __future__ import annotations

from pytest_webgpu.kernels.kernel import Function, KernelSource
from pytest_webgpu.kernels.statements import Range, arguments, loosest, operands
from pytest_webgpu.kernels.tokens import match_end

_NEVER = ("abs", "exp", "exp2", "sqrt", "inverseSqrt", "length", "distance", "saturate", "u32", "cosh", "arrayLength")
_THROUGH = ("f32", "f16", "vec2", "vec3", "vec4", "select", "min", "floor", "ceil", "round", "mix")


def may_be_negative(kernel: KernelSource, function: Function, at: Range) -> bool:
    """False where the sign is plain to see, or is a parameter's own matter (uniforms, overrides, constants)."""
    return _Signs(kernel, function).negative(at, frozenset())


class _Signs:
    def __init__(self, kernel: KernelSource, function: Function) -> None:
        self.kernel, self.function, self.tokens = kernel, function, function.tokens
        uniforms = [b.name for b in kernel.bindings if b.space == "uniform"]
        self.given = {*uniforms, *kernel.constants, *(o.name for o in kernel.overrides)}

    def negative(self, at: Range, seen: frozenset[str]) -> bool:
        begin, end = at
        first = self.tokens[begin]
        sign = loosest(self.tokens, at)
        if sign is not None:
            left, right = operands(self.tokens, sign)
            left = (max(left[0], begin), left[1])
            if self.tokens[sign].text == "*" and self.text(left) == self.text(right):
                return False
            if self.tokens[sign].text == "%":
                return self.negative(left, seen)
            return (
                self.tokens[sign].text not in ("+", "*", "/") or self.negative(left, seen) or self.negative(right, seen)
            )
        if first.text == "(" and match_end(self.tokens, begin) == end - 1:
            return self.negative((begin + 1, end - 1), seen)
        if first.kind == "number":
            return False
        if first.kind != "word":
            return True
        return self.word(at, seen)

    def word(self, at: Range, seen: frozenset[str]) -> bool:
        begin, end = at
        name = self.tokens[begin].text
        opens = begin + 1
        if opens < end and self.tokens[opens].kind == "open":
            opens = match_end(self.tokens, opens) + 1
        if opens < end and self.tokens[opens].text == "(" and match_end(self.tokens, opens) == end - 1:
            if name in _NEVER:
                return False
            values = arguments(self.tokens, (opens + 1, end - 1))
            if name == "max":
                return all(self.negative(v, seen) for v in values)
            if name == "clamp":
                return self.negative(values[1], seen)
            if name == "dot":
                return self.text(values[0]) != self.text(values[1])
            if name == "select":
                values = values[:2]
            return name not in _THROUGH or any(self.negative(v, seen) for v in values)
        if name in self.given:
            return False
        value = self.declared(name) if end == begin + 1 and name not in seen else None
        return value is None or self.negative(value, seen | {name})

    def declared(self, name: str) -> Range | None:
        """The value of `let name = ...`, the only assignment that a name of its own has."""
        for i in range(1, len(self.tokens)):
            if self.tokens[i].text == name and self.tokens[i - 1].text == "let":
                begin = next(j for j in range(i, len(self.tokens)) if self.tokens[j].text == "=") + 1
                return begin, next(j for j in range(begin, len(self.tokens)) if self.tokens[j].text == ";")
        return None

    def text(self, at: Range) -> str:
        return " ".join(t.text for t in self.tokens[at[0] : at[1]])
