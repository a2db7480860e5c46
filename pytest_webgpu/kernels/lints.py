"""What can be seen in a kernel's text without running it: what one compiler or GPU takes and another does not.

A finding names a line. It is not a verdict: a kernel with findings may be right on the adapter at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_webgpu.kernels.constants import NotConstant
from pytest_webgpu.kernels.declarations import SyntaxProblem
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.kernel import FEATURES, Function, KernelSource
from pytest_webgpu.kernels.sign import may_be_negative
from pytest_webgpu.kernels.statements import Range, Statement, arguments, is_binary, operands, parse_body
from pytest_webgpu.kernels.tokens import Token, match_end
from pytest_webgpu.kernels.uniformity import misplaced_barriers

WORKGROUP_MEMORY = 16_384
"""Bytes of workgroup memory that every WebGPU device has."""


@dataclass(frozen=True)
class Finding:
    """`rule` is the lint's name, `line` counts from 1 in the kernel's text."""

    rule: str
    line: int
    message: str


def lint(kernel: KernelSource, limits: Mapping[str, int] | None = None) -> tuple[Finding, ...]:
    """All findings, by line. `limits` by WebGPU's names; the defaults where it is silent."""
    reached = {n for p in kernel.passes for n in (p.entry, *kernel.entry(p.entry).uses)}
    functions = [f for n, f in kernel.functions.items() if n in reached]
    found = [*_barriers(kernel), *_memory(kernel, limits or {}), *_unused(kernel, reached), *_features(kernel),
             *_overlaps(kernel)]  # fmt: skip
    for entry in dict.fromkeys(p.entry for p in kernel.passes):
        found += _Zeroed(kernel).entry(entry)
    for function in functions:
        found += [*_powers(kernel, function), *_self_comparisons(kernel, function), *_shifts(kernel, function)]
    return tuple(sorted(dict.fromkeys(found), key=lambda f: (f.line, f.rule)))


def _barriers(kernel: KernelSource) -> Iterator[Finding]:
    for entry in dict.fromkeys(p.entry for p in kernel.passes):
        for m in misplaced_barriers(kernel, entry):
            rule = "barrier-after-return" if m.reason.startswith("after the return") else "barrier-not-uniform"
            yield Finding(rule, m.line, f"{m.barrier} where not every invocation comes: {m.reason}")


def _memory(kernel: KernelSource, limits: Mapping[str, int]) -> Iterator[Finding]:
    allowed = limits.get("max-compute-workgroup-storage-size", WORKGROUP_MEMORY)
    largest = {n: float(max(v)) for n, v in kernel.header.tune.items()}
    for entry in dict.fromkeys(p.entry for p in kernel.passes):
        try:
            size = kernel.workgroup_memory(largest, entry)
        except KernelError:
            continue  # sized by a dim: known at launch only
        if size > allowed:
            uses = kernel.entry(entry).uses
            line = next(w.line for w in kernel.workgroup if w.name in uses)
            yield Finding("workgroup-memory", line, f"{size} bytes of workgroup memory, {allowed} are allowed")


def _unused(kernel: KernelSource, reached: set[str]) -> Iterator[Finding]:
    for b in kernel.bindings:
        if b.name not in reached:
            yield Finding("unused-binding", b.line, f"`{b.name}` is bound and never used")


def _features(kernel: KernelSource) -> Iterator[Finding]:
    enabled = {FEATURES.get(e, e) for e in kernel.module.enables}
    if any(t == "f16" for _, t in kernel.variant):
        enabled.add("shader-f16")  # [types] says so; the text itself is of the first type
    for extension, feature in FEATURES.items():
        if feature in kernel.features - enabled:
            yield Finding("feature-not-enabled", 1, f"uses {feature} without `enable {extension};`, which browsers and "
                          "Dawn demand")  # fmt: skip


def _overlaps(kernel: KernelSource) -> Iterator[Finding]:
    """Two variables on one buffer, one of them writable: an error of the API in one dispatch."""
    seen: dict[str, tuple[str, str]] = {}
    for b in kernel.bindings:
        name = kernel.header.bind.get(b.name, b.name)
        if b.space == "storage" and name in seen and "read_write" in (b.access, seen[name][1]):
            both = f"`{b.name}` and `{seen[name][0]}` are both bound to {name}, and one of them writes"
            yield Finding("overlapping-bindings", b.line, f"{both}: WebGPU refuses that in one dispatch")
        seen.setdefault(name, (b.name, b.access))


def _text(kernel: KernelSource, tokens: tuple[Token, ...], at: Range) -> str:
    return kernel.text[tokens[at[0]].start : tokens[at[1] - 1].end] if at[1] > at[0] else ""


def _powers(kernel: KernelSource, function: Function) -> Iterator[Finding]:
    tokens = function.tokens
    for i, token in enumerate(tokens):
        if token.text == "pow" and tokens[i + 1].text == "(":
            base_at = arguments(tokens, (i + 2, match_end(tokens, i + 1)))[0]
            if may_be_negative(kernel, function, base_at):
                base = _text(kernel, tokens, base_at)
                message = f"pow of `{base}`, which may be negative: WGSL gives no value there (write x * x)"
                yield Finding("pow-negative", token.line, message)


def _self_comparisons(kernel: KernelSource, function: Function) -> Iterator[Finding]:
    tokens = function.tokens
    for i, token in enumerate(tokens):
        if token.text in ("!=", "==") and is_binary(tokens, i):
            left, right = (_text(kernel, tokens, at) for at in operands(tokens, i))
            if left == right:
                yield Finding("nan-test", token.line, f"`{left} {token.text} {right}` tests for NaN, but WGSL lets a "
                              "compiler assume that there is none (test the bits: bitcast<u32>)")  # fmt: skip


def _shifts(kernel: KernelSource, function: Function) -> Iterator[Finding]:
    tokens = function.tokens
    for i, token in enumerate(tokens):
        if token.text in ("<<", ">>", "<<=", ">>=") and is_binary(tokens, i):
            amount = _text(kernel, tokens, operands(tokens, i)[1])
            try:
                bits = kernel.scope().value(amount)
            except (NotConstant, SyntaxProblem):
                continue
            if bits >= 32:
                yield Finding("shift-32", token.line, f"a shift by {int(bits)}: WGSL takes it modulo 32, or refuses it")


class _Zeroed:
    """Workgroup memory that is read before anything wrote it: zero by the specification, garbage on wgpu-native."""

    def __init__(self, kernel: KernelSource) -> None:
        self.kernel = kernel
        self.names = {w.name for w in kernel.workgroup}
        self.touched: set[str] = set()
        self.found: list[Finding] = []

    def entry(self, name: str) -> list[Finding]:
        self.function(self.kernel.functions[name])
        return self.found

    def function(self, function: Function) -> None:
        for s in parse_body(function.tokens).walk():
            if s.kind == "plain":
                self.plain(function, s)
            elif s.head[1] > s.head[0] and s.kind != "case":
                self.reads(function, s.head)

    def plain(self, function: Function, s: Statement) -> None:
        tokens, (begin, end) = function.tokens, s.head
        sign = next((i for i in range(begin, end) if tokens[i].text == "=" and tokens[i].kind == "sign"), None)
        root = next((t.text for t in tokens[begin:end] if t.kind == "word"), "")
        if sign is None or root not in self.names:
            self.reads(function, s.head)
            return
        self.reads(function, (sign + 1, end))
        self.touched.add(root)

    def reads(self, function: Function, at: Range) -> None:
        for i in range(*at):
            token, tokens = function.tokens[i], function.tokens
            if token.kind != "word" or tokens[i - 1].text == ".":
                continue
            if token.text in self.kernel.functions and tokens[i + 1].text == "(":
                self.function(self.kernel.functions[token.text])
            if token.text not in self.names or token.text in self.touched:
                continue
            self.touched.add(token.text)
            pointed_to = tokens[i - 1].text == "&"
            caller = tokens[i - 3].text if pointed_to else ""
            if not pointed_to or (caller.startswith("atomic") and caller != "atomicStore") or caller in _LOADS:
                self.found.append(Finding("workgroup-zero", token.line, f"`{token.text}` is read before it is written: "
                                          "wgpu-native leaves workgroup memory as it was"))  # fmt: skip


_LOADS = ("workgroupUniformLoad",)
