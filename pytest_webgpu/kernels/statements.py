"""A function body as nested statements over its tokens: what lints and mutants walk. Expressions stay token ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_webgpu.kernels.tokens import Token, match_end

Range = tuple[int, int]
"""Token indices, the second one past the last."""

LEVELS = {sign: level for level, signs in enumerate(
    ("= += -= *= /= %= &= |= ^= <<= >>=", "||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
) for sign in signs.split()}  # fmt: skip
"""How tightly a binary operator binds; assignments are 0."""


@dataclass(frozen=True)
class Statement:
    """`kind`: block, if, for, while, loop, continuing, switch, case, return, break, continue, or plain (the rest).

    `at`: all of its tokens. `head`: the condition, selector, or whole of a plain statement. `body`: what it holds;
    of a `for`, `init` and `update` stand apart. `other`: the else branch.
    """

    kind: str
    at: Range
    head: Range = (0, 0)
    body: tuple[Statement, ...] = ()
    other: tuple[Statement, ...] = ()
    init: Statement | None = None
    update: Statement | None = None

    def walk(self) -> Iterator[Statement]:
        """This statement and all within it, in the order of the text."""
        yield self
        for inner in (self.init, self.update, *self.body, *self.other):
            if inner is not None:
                yield from inner.walk()


def parse_body(tokens: Sequence[Token]) -> Statement:
    """The block that a function's tokens (braces included) are."""
    return _Parser(tokens).block(0)


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens

    def block(self, begin: int) -> Statement:
        end, at, inner = match_end(self.tokens, begin), begin + 1, []
        while at < end:
            statement = self.statement(at)
            inner.append(statement)
            at = statement.at[1]
        return Statement("block", (begin, end + 1), body=tuple(inner))

    def statement(self, begin: int) -> Statement:
        at = begin
        while self.tokens[at].text == "@":  # @diagnostic(off, derivative_uniformity)
            at += 2
            if self.tokens[at].text == "(":
                at = match_end(self.tokens, at) + 1
        match self.tokens[at].text:
            case "{":
                return self.block(at)
            case "if":
                return self.condition(at)
            case "for":
                return self.counted(at)
            case "while" | "switch" | "loop" | "continuing" as word:
                brace = self.find("{", at + 1)
                body = self.block(brace) if word != "switch" else self.cases(brace)
                return Statement(word, (begin, body.at[1]), (at + 1, brace), body.body)
        end = self.find(";", at)
        first = self.tokens[at].text
        kind = first if first in ("return", "break", "continue") else "plain"
        return Statement(kind, (begin, end + 1), (at + (kind != "plain"), end))

    def condition(self, at: int) -> Statement:
        brace = self.find("{", at + 1)
        then = self.block(brace)
        end, other = then.at[1], tuple[Statement, ...]()
        if end < len(self.tokens) and self.tokens[end].text == "else":
            otherwise = self.statement(end + 1)
            end, other = otherwise.at[1], (otherwise,)
        return Statement("if", (at, end), (at + 1, brace), then.body, other)

    def counted(self, at: int) -> Statement:
        close = match_end(self.tokens, at + 1)
        first = self.find(";", at + 2)
        second = self.find(";", first + 1)
        body = self.block(close + 1)
        init = Statement("plain", (at + 2, first), (at + 2, first)) if first > at + 2 else None
        update = Statement("plain", (second + 1, close), (second + 1, close)) if close > second + 1 else None
        return Statement("for", (at, body.at[1]), (first + 1, second), body.body, (), init, update)

    def cases(self, brace: int) -> Statement:
        end, at, inner = match_end(self.tokens, brace), brace + 1, []
        while at < end:
            opens = self.find("{", at)
            body = self.block(opens)
            inner.append(Statement("case", (at, body.at[1]), (at + 1, opens), body.body))
            at = body.at[1]
        return Statement("block", (brace, end + 1), body=tuple(inner))

    def find(self, sign: str, at: int) -> int:
        """The next `sign` outside brackets."""
        while self.tokens[at].text != sign:
            at = match_end(self.tokens, at) + 1 if self.tokens[at].text in ("(", "[", "{") else at + 1
        return at


def is_binary(tokens: Sequence[Token], i: int) -> bool:
    """Whether token i is an operator between two operands (not a sign, `&x`, `*p`, or part of a template)."""
    if tokens[i].kind != "sign" or tokens[i].text not in LEVELS or not i:
        return False
    before = tokens[i - 1]
    if before.kind == "word":
        return before.text not in ("return", "if", "while", "case", "switch")
    return before.kind in ("number", "close") or before.text in (")", "]", "++", "--")


def operands(tokens: Sequence[Token], i: int) -> tuple[Range, Range]:
    """The ranges of the operands of the binary operator at i, as WGSL groups them (from the left)."""
    level = LEVELS[tokens[i].text]
    begin = i
    while begin > 0 and not _ends_left(tokens, begin - 1, level):
        begin = _match_begin(tokens, begin - 1) if tokens[begin - 1].text in (")", "]") else begin - 1
    end = i + 1
    while end < len(tokens) and not _ends_right(tokens, end, level):
        end = match_end(tokens, end) + 1 if tokens[end].text in ("(", "[") else end + 1
    return (begin, i), (i + 1, end)


def arguments(tokens: Sequence[Token], at: Range) -> list[Range]:
    """The ranges between the commas of a list (without its brackets)."""
    found, begin, i = [], at[0], at[0]
    while i < at[1]:
        if tokens[i].text in ("(", "[") or tokens[i].kind == "open":
            i = match_end(tokens, i)
        elif tokens[i].text == ",":
            found.append((begin, i))
            begin = i + 1
        i += 1
    return [*found, (begin, at[1])] if begin < at[1] else found


def loosest(tokens: Sequence[Token], at: Range) -> int | None:
    """The binary operator of an expression that is applied last, or None."""
    found: int | None = None
    i = at[0]
    while i < at[1]:
        if tokens[i].text in ("(", "[") or tokens[i].kind == "open":
            i = match_end(tokens, i)
        elif i > at[0] and is_binary(tokens, i):
            if found is None or LEVELS[tokens[i].text] <= LEVELS[tokens[found].text]:
                found = i
        i += 1
    return found


_WORDS = ("return", "if", "while", "for", "switch", "case", "let", "var", "const", "break", "else")


def _ends_left(tokens: Sequence[Token], i: int, level: int) -> bool:
    token = tokens[i]
    if token.kind == "word":
        return token.text in _WORDS
    if token.kind != "sign":
        return False
    return token.text in ("(", "[", "{", "}", ",", ";", ":") or (is_binary(tokens, i) and LEVELS[token.text] < level)


def _ends_right(tokens: Sequence[Token], i: int, level: int) -> bool:
    token = tokens[i]
    if token.kind != "sign":
        return False
    return token.text in (")", "]", "{", "}", ",", ";", ":") or (is_binary(tokens, i) and LEVELS[token.text] <= level)


def _match_begin(tokens: Sequence[Token], end: int) -> int:
    """The index of the bracket that the one at `end` closes."""
    right = tokens[end].text
    left, depth = {")": "(", "]": "["}[right], 0
    for i in range(end, -1, -1):
        if tokens[i].kind == "sign":
            depth += (tokens[i].text == right) - (tokens[i].text == left)
            if depth == 0:
                return i
    raise ValueError(f"{right!r} in line {tokens[end].line} closes nothing")
