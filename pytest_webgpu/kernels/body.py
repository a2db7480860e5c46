"""One function of a kernel to be rewritten: where its operators, calls, accesses and stores lie, and edits of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_webgpu.kernels.kernel import Binding, Function, KernelSource
from pytest_webgpu.kernels.statements import Range, Statement, arguments, is_binary, operands, parse_body
from pytest_webgpu.kernels.tokens import match_end


@dataclass(frozen=True)
class Edit:
    """One fault: the catalogue's name of it, the line, and (start, end, new text) to splice."""

    fault: str
    line: int
    parts: tuple[tuple[int, int, str], ...]


class Body:
    """A function's tokens and statements, with edits made from ranges of them."""

    def __init__(self, kernel: KernelSource, function: Function) -> None:
        self.kernel, self.function, self.tokens = kernel, function, function.tokens
        self.statements = list(parse_body(function.tokens).walk())
        self.stored = {b.name: b for b in kernel.bindings if b.space == "storage"}

    def text(self, at: Range) -> str:
        return self.kernel.text[self.tokens[at[0]].start : self.tokens[at[1] - 1].end] if at[1] > at[0] else ""

    def edit(self, fault: str, at: Range, new: str) -> Edit:
        first = self.tokens[at[0]]
        return Edit(fault, first.line, ((first.start, self.tokens[at[1] - 1].end, new),))

    def operators(self, *signs: str) -> Iterator[tuple[int, str, str, Range]]:
        """(index, left, right, whole) of each binary operator."""
        for i, token in enumerate(self.tokens):
            if token.text in signs and is_binary(self.tokens, i):
                left, right = operands(self.tokens, i)
                yield i, self.text(left), self.text(right), (left[0], right[1])

    def calls(self, *names: str) -> Iterator[tuple[str, Range, list[str]]]:
        """(function, whole call, arguments) of each call."""
        for i, token in enumerate(self.tokens[:-1]):
            if token.text in names and self.tokens[i + 1].text == "(" and self.tokens[i - 1].text != ".":
                end = match_end(self.tokens, i + 1)
                yield token.text, (i, end + 1), [self.text(a) for a in arguments(self.tokens, (i + 2, end))]

    def accesses(self) -> Iterator[tuple[Binding, Range, Range, bool]]:
        """(binding, whole, index, whether it is written) of each `buffer[index]`."""
        for i, token in enumerate(self.tokens[:-1]):
            if token.text in self.stored and self.tokens[i + 1].text == "[" and self.tokens[i - 1].text != ".":
                end = match_end(self.tokens, i + 1)
                written = self.tokens[end + 1].text.endswith("=") and self.tokens[end + 1].text not in (
                    "==",
                    "<=",
                    ">=",
                )
                yield self.stored[token.text], (i, end + 1), (i + 2, end), written and self.tokens[end + 1].text != "!="

    def stores(self) -> Iterator[tuple[Binding, Statement, int]]:
        """(binding, statement, index of its `=`) of each plain store into a buffer."""
        for s in self.statements:
            name = self.tokens[s.head[0]].text if s.kind == "plain" and s.head[1] > s.head[0] else ""
            if name in self.stored:
                sign = next(
                    (i for i in range(*s.head) if self.tokens[i].text == "=" and self.tokens[i].kind == "sign"), None
                )
                if sign is not None:
                    yield self.stored[name], s, sign
