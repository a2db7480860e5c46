"""WGSL as tokens with their places in the text: what reading, linting and rewriting a kernel share.

Comments are skipped (block comments nest). `<` and `>` of template lists are told from comparisons by the rule of
the WGSL specification (section 3.9, template list discovery).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["word", "number", "sign", "open", "close"]

_PIECES = re.compile(
    r"""(?P<skip>[\s\u200e\u200f\u2028\u2029]+ | //[^\n]*)
      | (?P<block>/\*)
      | (?P<number>0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*(?:[pP][+-]?\d+[fh]?|[iu])?
                 | (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fhiu]?)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><<=|->|&&|\|\||\+\+|--|<=|==|!=|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|[-+*/%&|^~!<>=.,:;@(){}\[\]?\#])""",
    re.VERBOSE,
)
_BLOCK = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` open and close are a template list's `<` and `>`. `start` is the offset in the text, `line` from 1."""

    kind: Kind
    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class TokenError(ValueError):
    """A character, or a comment without end, that is no WGSL."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message, self.line = message, line


def tokenise(text: str) -> list[Token]:
    """All tokens of a WGSL text, in order."""
    tokens: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _PIECES.match(text, at)
        if match is None:
            raise TokenError(f"{text[at]!r} is no WGSL", line)
        kind, end = match.lastgroup, match.end()
        if kind == "block":
            end = _block_end(text, at, line)
        elif kind != "skip":
            tokens.append(Token(kind, match.group(), at, line))  # type: ignore[arg-type]
        line += text.count("\n", at, end)
        at = end
    return _join(_mark_templates(tokens))


def _block_end(text: str, at: int, line: int) -> int:
    depth, begin = 0, at
    while True:
        mark = _BLOCK.search(text, at)
        if mark is None:
            raise TokenError(f"the comment that begins at offset {begin} has no end", line)
        depth, at = depth + (1 if mark.group() == "/*" else -1), mark.end()
        if depth == 0:
            return at


def _mark_templates(tokens: list[Token]) -> list[Token]:
    """Gives `<` and `>` of template lists their kinds. Every `>` is still a token of its own here."""
    marked = list(tokens)
    candidates: list[tuple[int, int]] = []  # index of a `<` that may open a list, nesting at that point
    depth = 0
    for i, token in enumerate(tokens):
        sign = token.text if token.kind == "sign" else ""
        if sign == "<" and i and tokens[i - 1].kind == "word":
            candidates.append((i, depth))
        elif sign == ">":
            if candidates and candidates[-1][1] == depth:
                begin, _ = candidates.pop()
                marked[begin] = replace(tokens[begin], kind="open")
                marked[i] = replace(token, kind="close")
        elif sign in ("(", "["):
            depth += 1
        elif sign in (")", "]"):
            candidates = [c for c in candidates if c[1] < depth]
            depth = max(0, depth - 1)
        elif sign in ("&&", "||"):
            candidates = [c for c in candidates if c[1] < depth]
        elif sign in (";", "{", ":") or (sign == "=" and not _continues(marked, i)):
            candidates, depth = [], 0
    return marked


def _continues(tokens: Sequence[Token], i: int) -> bool:
    """Whether token i is the rest of a `>=`."""
    before = tokens[i - 1]
    return before.kind == "sign" and before.text == ">" and before.end == tokens[i].start


def _join(tokens: list[Token]) -> list[Token]:
    """`>` `>` and `>` `=` that touch and close no template list become `>>`, `>=`, `>>=`."""
    joined: list[Token] = []
    for token in tokens:
        before = joined[-1] if joined else None
        if (
            before is not None and before.kind == token.kind == "sign" and before.end == token.start
            and before.text + token.text in (">>", ">=", ">>=")
        ):  # fmt: skip
            joined[-1] = replace(before, text=before.text + token.text)
        else:
            joined.append(token)
    return joined


def match_end(tokens: Sequence[Token], begin: int) -> int:
    """The index of the bracket that closes the one at `begin`; ValueError when there is none."""
    left = tokens[begin]
    right = ("close", ">") if left.kind == "open" else ("sign", {"(": ")", "[": "]", "{": "}"}[left.text])
    depth = 0
    for i in range(begin, len(tokens)):
        pair = (tokens[i].kind, tokens[i].text)
        depth += (pair == (left.kind, left.text)) - (pair == right)
        if depth == 0:
            return i
    raise ValueError(f"{left.text!r} in line {left.line} is not closed")


def splice(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text with each (start, end, new) replaced; edits do not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
