"""Evaluates WGSL's const and override expressions of scalars: array sizes, workgroup sizes, `const TILE = 4 * WG;`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pytest_webgpu.kernels.declarations import Tree, parse_expression, text_of

Number = int | float | bool


class NotConstant(ValueError):
    """An expression whose value is not known before the kernel runs."""


class Scope:
    """Names with their expressions (None: an override without default) and the overrides' given values."""

    def __init__(self, expressions: Mapping[str, str | None], given: Mapping[str, float] | None = None) -> None:
        self.expressions, self.given = expressions, dict(given or {})

    def value(self, text: str) -> Number:
        """The value of an expression's text: a finite number, an integer of 64 bits at most. Raises NotConstant."""
        try:
            return self._value(parse_expression(text))
        except NotConstant:
            raise
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as e:
            raise NotConstant(f"`{text[:60]}` has no value: {e}") from None

    def named(self, name: str) -> Number:
        if name in self.given:
            return self.given[name]
        text = self.expressions.get(name)
        if text is None:
            raise NotConstant(f"`{name}` has no value" if name in self.expressions else f"`{name}` is no constant")
        # a constant that names itself would recurse: its own name has no value while it is evaluated
        others = {k: v for k, v in self.expressions.items() if k != name}
        self.given[name] = Scope(others, self.given).value(text)
        return self.given[name]

    def _value(self, tree: Tree) -> Number:
        value = self._evaluate(tree)
        if not (math.isfinite(value) if isinstance(value, float) else abs(value) < 2**64):
            raise NotConstant(f"`{text_of(tree)[:60]}` is beyond every type of WGSL")
        return value

    def _evaluate(self, tree: Tree) -> Number:
        kind, children = tree.data, tree.children
        match kind:
            case "number":
                return literal(str(children[0]))
            case "word":
                return str(children[0]) == "true"
            case "unary":
                return _UNARY[str(children[0])](self._value(children[1]))
            case "binary":
                left, right = self._value(children[0]), self._value(children[2])
                try:
                    return _BINARY[str(children[1])](left, right)
                except ZeroDivisionError:
                    raise NotConstant(f"`{text_of(tree)}` divides by zero") from None
            case "call":
                name, _, arguments = children
                if arguments is None:
                    return self.named(str(name))
                function = _FUNCTIONS.get(str(name))
                if function is not None:
                    values = [self._value(a) for a in arguments.children]
                    return function(*values)
        raise NotConstant(f"`{text_of(tree)}` is no scalar constant")


def literal(text: str) -> Number:
    """The value of a WGSL number: `64u`, `0x1Fu`, `1.5h`, `0x1p-3f`."""
    if text[:2].lower() == "0x":
        if "." in text or "p" in text.lower():
            return float.fromhex(text.rstrip("fh") if "p" in text.lower() else text)
        return int(text.rstrip("iu"), 16)
    digits = text.rstrip("fhiu")
    return float(digits) if any(c in text for c in ".eEfh") else int(digits)


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return int(a / b) if abs(a) < 2**52 else a // b


_UNARY: dict[str, Callable[[Any], Number]] = {"-": lambda a: -a, "!": lambda a: not a, "~": lambda a: ~a & 0xFFFFFFFF}
_BINARY: dict[str, Callable[[Any, Any], Number]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divide,
    "%": lambda a, b: math.fmod(a, b) if isinstance(a, float) or isinstance(b, float) else a - b * int(_divide(a, b)),
    "<<": lambda a, b: a << min(b, 64),  # 64 is refused already; more would only fill the memory
    ">>": lambda a, b: a >> b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "&&": lambda a, b: a and b, "||": lambda a, b: a or b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "u32": lambda a=0: int(a), "i32": lambda a=0: int(a), "bool": lambda a=False: bool(a),
    "f32": lambda a=0.0: float(a), "f16": lambda a=0.0: float(a),
    "min": min, "max": max, "abs": abs, "clamp": lambda a, low, high: min(max(a, low), high),
    "select": lambda no, yes, condition: yes if condition else no,
    "ceil": lambda a: float(math.ceil(a)), "floor": lambda a: float(math.floor(a)), "sqrt": math.sqrt,
    "exp2": lambda a: 2.0**a, "log2": math.log2, "pow": lambda a, b: float(a) ** b,
    "firstLeadingBit": lambda a: int(a).bit_length() - 1, "countOneBits": lambda a: int(a).bit_count(),
    "countTrailingZeros": lambda a: (int(a) & -int(a)).bit_length() - 1 if a else 32,
    "countLeadingZeros": lambda a: 32 - int(a).bit_length(),
}  # fmt: skip
