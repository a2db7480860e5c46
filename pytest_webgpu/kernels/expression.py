"""Arithmetic in kernel headers and contracts: `ceil_div(rows, WG)`, `cols % 4 == 0`. Parsed, never run as Python.

Integers and floats, names, `+ - * / // %`, parentheses, `ceil_div`, `min`, `max`; comparisons joined by `and`, `or`,
`not`. `fold2d(n)`, alone, says that n workgroups may be spread over two dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import lark

from pytest_webgpu.kernels.errors import listing, nearest

LONGEST = 200
MAX_WORKGROUPS = 65_535
"""Workgroups a dimension that WebGPU allows by default (maxComputeWorkgroupsPerDimension)."""

_GRAMMAR = r"""
    ?start: either
    ?either: both | either "or" both -> or_
    ?both: negation | both "and" negation -> and_
    ?negation: comparison | "not" negation -> not_
    ?comparison: sum | sum (COMPARE sum)+ -> compare
    ?sum: product | sum "+" product -> add | sum "-" product -> sub
    ?product: unary | product "*" unary -> mul | product "//" unary -> floordiv
            | product "/" unary -> div | product "%" unary -> mod
    ?unary: atom | "-" unary -> neg | "+" unary
    ?atom: NUMBER -> number | NAME -> name | NAME "(" [either ("," either)*] ")" -> call | "(" either ")"
    COMPARE: "==" | "!=" | "<=" | ">=" | "<" | ">"
    NUMBER.2: /(0[xX][0-9a-fA-F]+|\d[\d_]*(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf\b)/
    NAME: /[A-Za-z_]\w*/
    %ignore /[ \t\n]+/
"""
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
}  # fmt: skip
_FUNCTIONS: dict[str, tuple[int | None, Callable[..., Any]]] = {
    "ceil_div": (2, lambda a, b: -(-a // b)),
    "min": (None, min),
    "max": (None, max),
    "fold2d": (1, lambda n: n),
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b, "div": lambda a, b: a / b, "mod": lambda a, b: a % b,
    "and_": lambda a, b: a and b, "or_": lambda a, b: a or b,
}  # fmt: skip


class ExpressionError(ValueError):
    """Text that is no arithmetic of known names. `remedy` says what to write."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}: {remedy}")
        self.message, self.remedy = message, remedy


@dataclass(frozen=True)
class Expression:
    """Arithmetic that was parsed from `text`; equal and hashed by that text."""

    text: str
    tree: Any = field(compare=False, repr=False)

    @property
    def names(self) -> frozenset[str]:
        """The names that a value needs, functions not included."""
        return frozenset(str(n.children[0]) for n in self._nodes("name"))

    @property
    def is_condition(self) -> bool:
        return any(True for _ in self._nodes("compare", "and_", "or_", "not_"))

    @property
    def folds(self) -> bool:
        """`fold2d(...)`: the value may be spread over two dimensions."""
        return any(True for _ in self._nodes("call")) and str(self.tree.children[0]) == "fold2d"

    @property
    def is_constant(self) -> bool:
        return not self.names

    def value(self, names: Mapping[str, int | float]) -> int | float:
        """The number; ExpressionError for an unknown name (lists those there are) or a division by zero."""
        try:
            value: int | float = _value(self.tree, names, self.text)
        except ZeroDivisionError:
            raise ExpressionError(f'division by zero in "{self.text}"', "guard the divisor with max(1, ...)") from None
        return value

    def evaluate(self, names: Mapping[str, int | float]) -> int:
        """The value where a whole number is needed (workgroups, shapes)."""
        value = self.value(names)
        if isinstance(value, float) and not value.is_integer():
            raise ExpressionError(f'"{self.text}" is {value}, not a whole number', "use // or ceil_div")
        return int(value)

    def holds(self, names: Mapping[str, int | float]) -> bool:
        return bool(self.value(names))

    def _nodes(self, *kinds: str) -> Any:
        return (n for n in self.tree.iter_subtrees() if n.data in kinds)


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """The expression that `text` is; ExpressionError where it is none."""
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression of {len(text)} characters", f"at most {LONGEST} are taken")
    try:
        tree = _parser().parse(text)
    except lark.exceptions.UnexpectedInput as e:
        where = f"at column {e.column}" if getattr(e, "column", -1) not in (-1, "?") else "at its end"
        raise ExpressionError(f'"{text}" is no arithmetic ({where})', _TAKEN) from None
    for call in tree.iter_subtrees():
        if call.data == "call":
            _check_call(call, tree, text)
    return Expression(text, tree)


_TAKEN = "write integers, dims, scalars, overrides, + - * // %, ceil_div, min, max, parentheses"


def _check_call(call: Any, root: Any, text: str) -> None:
    name, arguments = str(call.children[0]), [c for c in call.children[1:] if c is not None]
    if name not in _FUNCTIONS:
        raise ExpressionError(f'"{text}" calls {name}', nearest(name, _FUNCTIONS) + _TAKEN)
    arity = _FUNCTIONS[name][0]
    if len(arguments) != arity if arity is not None else not arguments:
        raise ExpressionError(f'"{text}": {name} takes {arity or "one or more"}, not {len(arguments)}', _TAKEN)
    if name == "fold2d" and call is not root:
        raise ExpressionError(f'"{text}": fold2d stands alone', "put the arithmetic inside: fold2d(rows * heads)")


@cache
def _parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, parser="lalr")


def _value(node: Any, names: Mapping[str, int | float], text: str) -> Any:
    kind, children = node.data, node.children
    if kind == "number":
        literal = str(children[0])
        if literal[:2].lower() == "0x":
            return int(literal, 16)
        return float(literal) if literal == "inf" or any(c in literal for c in ".eE") else int(literal)
    if kind == "name":
        name = str(children[0])
        if name not in names:
            known = f"the names here are: {listing(sorted(names))}"
            raise ExpressionError(f'"{name}" in "{text}" is no dim, integer scalar or override',
                                  nearest(name, names) + known)  # fmt: skip
        return names[name]
    if kind == "call":
        return _FUNCTIONS[str(children[0])][1](*(_value(c, names, text) for c in children[1:] if c is not None))
    if kind == "compare":
        values = [_value(c, names, text) for c in children[::2]]
        signs = [_COMPARE[str(c)] for c in children[1::2]]
        return all(sign(a, b) for sign, a, b in zip(signs, values, values[1:], strict=False))
    if kind == "neg":
        return -_value(children[0], names, text)
    if kind == "not_":
        return not _value(children[0], names, text)
    return _BINARY[kind](*(_value(c, names, text) for c in children))
