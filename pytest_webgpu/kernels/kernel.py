"""A kernel as data: a .wgsl text, what it declares, and what its header claims. `source.py` reads it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pytest_webgpu.kernels.constants import NotConstant, Scope
from pytest_webgpu.kernels.declarations import Module, Named
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.header import Header, Pass
from pytest_webgpu.kernels.tokens import Token, splice
from pytest_webgpu.kernels.types import Layout, Struct, Unsized, WgslType, round_up

FEATURES = {"f16": "shader-f16", "subgroups": "subgroups"}
"""Extensions whose `enable` line each implementation adds or removes, with the WebGPU feature of each."""
SUBGROUP_FUNCTIONS = frozenset(
    [f"subgroup{n}" for n in (
        "Add ExclusiveAdd InclusiveAdd All And Any Ballot Broadcast BroadcastFirst Elect Max Min Mul ExclusiveMul "
        "InclusiveMul Or Shuffle ShuffleDown ShuffleUp ShuffleXor Xor").split()]
    + ["quadBroadcast", "quadSwapX", "quadSwapY", "quadSwapDiagonal"]
)  # fmt: skip
SUBGROUP_BUILTINS = frozenset(["subgroup_size", "subgroup_invocation_id", "subgroup_id", "num_subgroups"])


@dataclass(frozen=True)
class Binding:
    """A resource variable. `uses_array_length`: its size shows in the results, so it is bound exactly."""

    name: str
    group: int
    index: int
    space: str  # storage, uniform
    access: str  # read, read_write
    type: WgslType
    uses_array_length: bool
    line: int


@dataclass(frozen=True)
class Override:
    name: str
    id: int | None
    type: str
    default: str | None
    line: int

    @property
    def key(self) -> str:
        """What WebGPU calls it in a pipeline's constants."""
        return self.name if self.id is None else str(self.id)


@dataclass(frozen=True)
class EntryPoint:
    """`uses`: the module's names that it reaches, through the functions that it calls."""

    name: str
    workgroup_size: tuple[str, ...]
    line: int
    uses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Workgroup:
    """A variable in workgroup memory."""

    name: str
    type: WgslType
    line: int


@dataclass(frozen=True)
class Function:
    """`uses`: names in its body (members after a dot left out); `tokens`: the body's, braces included."""

    name: str
    line: int
    declaration: Named = field(repr=False)
    uses: frozenset[str] = field(repr=False)

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self.declaration.body


@dataclass(frozen=True)
class KernelSource:
    """`text` is what was read (a variant's alias already replaced); `features` by WebGPU's names."""

    path: Path | None
    text: str
    header: Header
    bindings: tuple[Binding, ...]
    structs: tuple[Struct, ...]
    overrides: tuple[Override, ...]
    entries: tuple[EntryPoint, ...]
    features: frozenset[str]
    sha: str
    constants: Mapping[str, str] = field(repr=False)
    workgroup: tuple[Workgroup, ...] = field(repr=False)
    functions: Mapping[str, Function] = field(repr=False)
    module: Module = field(repr=False, compare=False)
    variant: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        return hash((self.sha, self.variant))

    @property
    def name(self) -> str:
        """The file's name without .wgsl, and a variant's types and optional arguments: `rms_norm[f16]`."""
        stem = self.path.name.removesuffix(".wgsl") if self.path else "<wgsl>"
        chosen = ",".join(t for _, t in self.variant if t)
        return stem + (f"[{chosen}]" if chosen else "")

    @cached_property
    def code(self) -> str:
        """The text to compile: without `enable` lines for f16 and subgroups (`features` says what it needs)."""
        edits = []
        for start, end in self._statements("enable"):
            kept = [n for n in re.findall(r"\w+", self.text[start + len("enable") : end]) if n not in FEATURES]
            lines = "\n" * self.text.count("\n", start, end)
            edits.append((start, end, (f"enable {', '.join(kept)};" if kept else "") + lines))
        return splice(self.text, edits)

    def _statements(self, word: str, name: str | None = None) -> list[tuple[int, int]]:
        """Where the declarations that begin with a keyword (and name) lie in the text, semicolons included."""
        tokens, found = self.module.tokens, []
        for i, token in enumerate(tokens):
            if token.kind == "word" and token.text == word and (name is None or tokens[i + 1].text == name):
                found.append((token.start, next(t.end for t in tokens[i:] if t.text == ";")))
        return found

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The dispatches that the header asks for, one without [[pass]]."""
        if self.header.passes:
            return self.header.passes
        entry = self.header.entry or self.entries[0].name
        return (Pass(entry, self.header.workgroups, self.header.line("workgroups")),)

    def entry(self, name: str) -> EntryPoint:
        return next(e for e in self.entries if e.name == name)

    def bound(self, entry: str) -> tuple[Binding, ...]:
        """The bindings that an entry point uses, itself or through what it calls."""
        return tuple(b for b in self.bindings if b.name in self.entry(entry).uses)

    def error(self, line: int, message: str, remedy: str) -> KernelError:
        """A KernelError about a line of the .wgsl."""
        return KernelError(self.path, line, message, remedy)

    def header_error(self, key: str, message: str, remedy: str) -> KernelError:
        """A KernelError about a key of the header, wherever that was written."""
        return KernelError(self.header.path or self.path, self.header.line(key), message, remedy)

    def scope(self, constants: Mapping[str, float] | None = None) -> Scope:
        """The module's constants and overrides, some overrides given by name."""
        return Scope(dict(self.constants) | {o.name: o.default for o in self.overrides}, constants)

    def layout(self, constants: Mapping[str, float] | None = None) -> Layout:
        scope = self.scope(constants)
        return Layout({s.name: s for s in self.structs}, lambda text: int(scope.value(text)))

    def struct(self, name: str) -> Struct:
        return next(s for s in self.structs if s.name == name)

    def workgroup_size(self, entry: str, constants: Mapping[str, float] | None = None) -> tuple[int, int, int]:
        scope = self.scope(constants)
        sizes = [int(scope.value(t)) for t in self.entry(entry).workgroup_size]
        x, y, z = (*sizes, 1, 1)[:3]
        return x, y, z

    def workgroup_memory(self, constants: Mapping[str, float] | None = None, entry: str | None = None) -> int:
        """Bytes of workgroup memory of the entry point (of the hungriest), each variable rounded up to 16 as in Dawn.

        `constants`: values of overrides by name; the others have their defaults.
        """
        layout = self.layout(constants)
        entries = [e for e in self.entries if entry in (None, e.name)]
        try:
            sizes = {w.name: round_up(layout.size(w.type), 16) for w in self.workgroup}
        except (NotConstant, Unsized) as e:
            line = self.workgroup[0].line
            raise self.error(line, f"workgroup memory of unknown size: {e}", "give the override a value") from None
        return max((sum(s for n, s in sizes.items() if n in e.uses) for e in entries), default=0)

    def variants(self) -> list[KernelSource]:
        """One kernel for each combination of `[types]`, with and without each `optional` argument.

        Itself alone where the header has neither.
        """
        header = self.header
        if self.variant or not (header.types or header.optional):
            return [self]
        choices = [[(name, t) for t in types] for name, types in header.types.items()]
        choices += [[(name, name), (name, "")] for name in header.optional]
        return [self._varied(variant) for variant in itertools.product(*choices)]

    def _varied(self, variant: tuple[tuple[str, str], ...]) -> KernelSource:
        edits = [(*place, f"alias {name} = {type};") for name, type in variant if name in self.header.types
                 for place in self._statements("alias", name)]  # fmt: skip
        text = splice(self.text, edits)
        for name in self.header.optional:
            lines = rf"^.*//\? {re.escape(name)}[ \t]*$"
            if not re.search(lines, text, re.M):
                raise self.header_error("optional", f"no line is marked as {name}'s",
                                        f"end its binding and its uses with `//? {name}`")  # fmt: skip
            if (name, "") in variant:  # emptied, not taken out, so that the lines of messages stay right
                text = re.sub(lines, "", text, flags=re.M)
        return replace(self.rewritten(text), variant=variant)

    def rewritten(self, text: str) -> KernelSource:
        """The kernel of another text under the same path, header and variant (a mutant, a faster edit)."""
        from pytest_webgpu.kernels.source import read_module  # which makes KernelSource from text

        return replace(read_module(text, self.path, self.header), variant=self.variant)
