"""Copies of a kernel with one fault each, to see whether its checks would notice."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass

from pytest_webgpu.kernels.body import Body, Edit
from pytest_webgpu.kernels.faults import MAKERS, whole_text
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.kernels.tokens import splice


@dataclass(frozen=True)
class Mutant:
    """`name` is the kernel's with line and fault, unique among its mutants and stable while the text is.

    `text` is the whole file's, header included (`kernel.rewritten(text)` reads it); `diff` shows the changed lines.
    """

    name: str
    fault: str
    line: int
    text: str
    diff: str

    @property
    def changed(self) -> tuple[str, ...]:
        """The lines taken out and put in, each with its sign."""
        return tuple(line for line in self.diff.splitlines()[3:] if line[:1] in ("-", "+"))


def mutants(kernel: KernelSource) -> list[Mutant]:
    """Every fault of `faults.py` in every function that the kernel's passes reach, by line.

    Some do not compile (a rewrite knows no types) and some change nothing (an equivalent form): the first are for
    the runner to leave out, the second for `wgsl/equivalent.toml`.
    """
    reached = {n for p in kernel.passes for n in (p.entry, *kernel.entry(p.entry).uses)}
    bodies = [Body(kernel, f) for n, f in kernel.functions.items() if n in reached]
    edits = [*whole_text(kernel), *(e for b in bodies for make in MAKERS for e in make(b))]
    found: dict[str, Mutant] = {}
    numbers: Counter[str] = Counter()
    for edit in sorted(edits, key=lambda e: e.line):
        text = splice(kernel.text, edit.parts)
        if text == kernel.text or text in found:
            continue
        name = f"{kernel.name}:{edit.line}:{edit.fault}"
        numbers[name] += 1
        if numbers[name] > 1:
            name = f"{name}#{numbers[name]}"
        found[text] = Mutant(name, edit.fault, edit.line, text, _diff(kernel, edit, text))
    return list(found.values())


def spread(all_of_them: list[Mutant], count: int) -> list[Mutant]:
    """At most `count` mutants, as unlike each other as their faults allow: one of each fault, then a second ..."""
    seen: Counter[str] = Counter()
    ranked = []
    for mutant in all_of_them:
        kind = mutant.fault.partition(":")[0]
        ranked.append((seen[kind], mutant))
        seen[kind] += 1
    ranked.sort(key=lambda pair: pair[0])
    return [mutant for _, mutant in ranked[:count]]


def _diff(kernel: KernelSource, edit: Edit, text: str) -> str:
    lines = difflib.unified_diff(kernel.text.splitlines(), text.splitlines(), kernel.name, edit.fault, lineterm="", n=1)
    return "\n".join(lines)
