"""The part of WGSL's grammar that declarations need, read by lark. Function bodies are skipped by balanced braces.

Types, array sizes and attributes are expressions too (so says WGSL); they stay trees here. `types.py` reads types,
`constants.py` evaluates, `text_of` writes a tree as text again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import lark

from pytest_webgpu.kernels.tokens import Token, match_end, tokenise

Tree: TypeAlias = Any  # lark's Tree and Token carry no types

LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
"""Binary operators, loosest first."""
_GRAMMAR = (
    r"""
    module: (_declaration | _SEMI)*
    _declaration: enable | language | diagnostic | alias | constant | override | assertion | struct | variable
                | function
    enable: _ENABLE NAME ("," NAME)* ","? _SEMI
    language: _REQUIRES NAME ("," NAME)* ","? _SEMI
    diagnostic: _DIAGNOSTIC "(" expression ("," expression)* ","? ")" _SEMI
    alias: _ALIAS NAME "=" expression _SEMI
    constant: _CONST NAME [":" expression] "=" expression _SEMI
    override: attributes _OVERRIDE NAME [":" expression] ["=" expression] _SEMI
    assertion: attributes _CONST_ASSERT expression _SEMI
    struct: attributes _STRUCT NAME "{" (field (_separator field)* _separator?)? "}"
    field: attributes NAME ":" expression
    _separator: "," | _SEMI
    variable: attributes _VAR [template] NAME [":" expression] ["=" expression] _SEMI
    function: attributes _FN NAME parameters [returns] BODY
    parameters: "(" (parameter ("," parameter)* ","?)? ")"
    parameter: attributes NAME ":" expression
    returns: _ARROW attributes expression
    attributes: attribute*
    attribute: "@" (NAME | WORD) [arguments]
    arguments: "(" (expression ("," expression)* ","?)? ")"
    template: OPEN expression ("," expression)* ","? CLOSE
    ?expression: level0
    ?level10: SIGN level10 -> unary | postfix
    ?postfix: primary | postfix "." NAME -> member | postfix "[" expression "]" -> index
    ?primary: NUMBER -> number | WORD -> word | "(" expression ")" | NAME [template] [arguments] -> call
    %declare NAME NUMBER WORD OPEN CLOSE SIGN BODY _SEMI _ARROW
    %declare _ENABLE _REQUIRES _DIAGNOSTIC _ALIAS _CONST _OVERRIDE _CONST_ASSERT _STRUCT _VAR _FN
    """
    + "".join(f"\n    ?level{i}: level{i + 1} | level{i} LEVEL{i} level{i + 1} -> binary" for i in range(10))
    + "".join(f"\n    %declare LEVEL{i}" for i in range(10))
)
_SIGNS = {
    "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE", ",": "COMMA", "@": "AT",
    ":": "COLON", "=": "EQUAL", ".": "DOT", ";": "_SEMI", "->": "_ARROW", "~": "SIGN", "!": "SIGN",
} | {sign: f"LEVEL{i}" for i, level in enumerate(LEVELS) for sign in level.split()}  # fmt: skip
_WORDS = {w: f"_{w.upper()}" for w in (
    "enable requires diagnostic alias const override const_assert struct var fn".split())} | {
    "true": "WORD", "false": "WORD"}  # fmt: skip
_OPERANDS = {"NAME", "NUMBER", "WORD", "CLOSE", "RPAR", "RSQB"}


@dataclass(frozen=True)
class Attribute:
    name: str
    arguments: tuple[Tree, ...]


@dataclass(frozen=True)
class Named:
    """One declaration: its name, line, attributes, and the trees of its type and value where it has them."""

    kind: str  # alias, constant, override, variable, struct, field, function, parameter
    name: str
    line: int
    attributes: tuple[Attribute, ...] = ()
    type: Tree | None = None
    value: Tree | None = None
    template: tuple[str, ...] = ()  # of a variable: ("storage", "read_write")
    members: tuple[Named, ...] = ()  # fields of a struct, parameters of a function
    body: tuple[Token, ...] = ()  # of a function, braces included

    def attribute(self, name: str) -> Attribute | None:
        return next((a for a in self.attributes if a.name == name), None)


@dataclass(frozen=True)
class Module:
    """What a WGSL text declares, in order, and the names in its `enable` lines with their places."""

    tokens: tuple[Token, ...]
    declared: tuple[Named, ...]
    enables: tuple[str, ...] = field(default=())

    def of(self, kind: str) -> dict[str, Named]:
        return {d.name: d for d in self.declared if d.kind == kind}


class SyntaxProblem(ValueError):
    """Text that is no WGSL declaration, with its line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message, self.line = message, line


def read(text: str) -> Module:
    """The declarations of a WGSL text. Raises TokenError or SyntaxProblem."""
    tokens = tokenise(text)
    tree = _parse(tokens, "module")
    builder = _Builder(tokens)
    declared = tuple(builder.named(d) for d in tree.children if d.data in _NAMED)
    enables = tuple(str(n) for d in tree.children if d.data == "enable" for n in d.children)
    return Module(tuple(tokens), declared, enables)


@cache
def parse_expression(text: str) -> Tree:
    """The tree of one WGSL expression or type."""
    return _parse(tokenise(text), "expression")


def text_of(tree: Tree) -> str:
    """A tree as WGSL text, with parentheses wherever they may matter."""
    if isinstance(tree, lark.Token):
        return str(tree)
    parts = [None if c is None else text_of(c) for c in tree.children]
    match tree.data:
        case "binary":
            return "({} {} {})".format(*parts)
        case "member":
            return "{}.{}".format(*parts)
        case "index":
            return "{}[{}]".format(*parts)
        case "arguments":
            return f"({', '.join(p for p in parts if p)})"
        case "template":
            return f"<{', '.join(p for p in parts[1:-1] if p)}>"
    return "".join(p for p in parts if p)


class _Lexer(lark.lexer.Lexer):  # type: ignore[misc]
    """Hands our tokens to lark; a function's body becomes one BODY token that holds (first, last) token indices."""

    def __init__(self, conf: Any) -> None:
        pass

    def lex(self, tokens: list[Token]) -> Iterator[Any]:
        i, in_function, before = 0, False, ""
        while i < len(tokens):
            token = tokens[i]
            kind, value = _terminal(token, before), token.text
            if kind == "_FN":
                in_function = True
            if kind == "LBRACE" and in_function:
                try:
                    end = match_end(tokens, i)
                except ValueError:
                    raise SyntaxProblem("this function body is not closed", token.line) from None
                kind, value, in_function, i = "BODY", f"{i} {end}", False, end
            yield lark.Token(kind, value, line=token.line, start_pos=token.start)
            before, i = kind, i + 1


def _terminal(token: Token, before: str) -> str:
    if token.kind == "word":
        return "NAME" if before == "AT" else _WORDS.get(token.text, "NAME")
    if token.kind != "sign":
        return token.kind.upper()
    if token.text in "-*&" and before not in _OPERANDS:
        return "SIGN"
    return _SIGNS.get(token.text, "_SEMI_NONE")


@cache
def _parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, parser="lalr", lexer=_Lexer, start=["module", "expression"])


def _parse(tokens: list[Token], start: str) -> Tree:
    try:
        return _parser().parse(tokens, start=start)
    except lark.exceptions.UnexpectedToken as e:
        if e.token.type == "$END":
            raise SyntaxProblem("the text ends inside a declaration", tokens[-1].line if tokens else 1) from None
        seen = "{" if e.token.type == "BODY" else str(e.token)
        raise SyntaxProblem(f"`{seen}` is not expected in this declaration", e.token.line) from None


_NAMED = {"alias", "constant", "override", "struct", "variable", "function"}


class _Builder:
    """Trees of declarations as `Named`."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens

    def named(self, tree: Tree) -> Named:
        kind, children = str(tree.data), list(tree.children)
        attributes: tuple[Attribute, ...] = ()
        if children and isinstance(children[0], lark.Tree) and children[0].data == "attributes":
            attributes = tuple(_attribute(a) for a in children.pop(0).children)
        template: tuple[str, ...] = ()
        if kind == "variable":
            head = children.pop(0)
            template = tuple(text_of(c) for c in head.children[1:-1]) if head is not None else ()
        name, rest = children[0], children[1:]
        base: dict[str, Any] = {"kind": kind, "name": str(name), "line": name.line, "attributes": attributes}
        if kind == "alias":
            return Named(**base, type=rest[0])
        if kind in ("constant", "override", "variable"):
            return Named(**base, type=rest[0], value=rest[1], template=template)
        if kind in ("field", "parameter"):
            return Named(**base, type=rest[0])
        if kind == "struct":
            return Named(**base, members=tuple(self.named(f) for f in rest))
        parameters, returns, body = rest
        first, last = map(int, str(body).split())
        return Named(
            **base,
            type=returns.children[1] if returns is not None else None,
            members=tuple(self.named(p) for p in parameters.children),
            body=tuple(self.tokens[first : last + 1]),
        )


def _attribute(tree: Tree) -> Attribute:
    name, arguments = tree.children
    return Attribute(str(name), tuple(arguments.children) if arguments is not None else ())
