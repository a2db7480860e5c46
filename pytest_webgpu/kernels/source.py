"""Reads kernels: a text or a file, its header, its declarations. Knows nothing of ops or devices."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_webgpu.kernels import header as headers
from pytest_webgpu.kernels.constants import NotConstant, Scope
from pytest_webgpu.kernels.declarations import Module, Named, SyntaxProblem, read, text_of
from pytest_webgpu.kernels.errors import KernelError, listing, nearest
from pytest_webgpu.kernels.expression import Expression, ExpressionError
from pytest_webgpu.kernels.header import Header
from pytest_webgpu.kernels.kernel import (
    FEATURES,
    SUBGROUP_BUILTINS,
    SUBGROUP_FUNCTIONS,
    Binding,
    EntryPoint,
    Function,
    KernelSource,
    Override,
    Workgroup,
)
from pytest_webgpu.kernels.tokens import Token, TokenError
from pytest_webgpu.kernels.types import Field, Layout, Struct, Unsized, WgslType, read_type

__all__ = ["Binding", "EntryPoint", "Expression", "ExpressionError", "Field", "Header", "KernelError", "KernelSource",
           "Override", "Struct", "WgslType", "parse_source", "read_module", "read_source"]  # fmt: skip


def parse_source(text: str, path: Path | str | None = None, header: Mapping[str, Any] | None = None) -> KernelSource:
    """The kernel that a WGSL text is. `header` (from options, or of a generated text) wins over its `//!` lines.

    Raises KernelError.
    """
    given = headers.Claims(header, None, {}) if header else None
    return _claimed(text, None if path is None else Path(path), given)


def read_source(path: Path | str, header: Mapping[str, Any] | None = None) -> KernelSource:
    """The kernel in a file. The `.toml` of the same name beside it wins over its `//!` lines, `header` over both."""
    path = Path(path)
    text, side = _text(path, "WGSL"), path.with_suffix(".toml")
    claims = headers.read_toml(_text(side, "TOML"), side) if side.is_file() else None
    given = headers.Claims(header, None, {}) if header else None
    return _claimed(text, path, headers.merge(claims, given))


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # editors on Windows begin a file with a byte order mark
    except (OSError, UnicodeDecodeError) as e:
        raise KernelError(path, 1, f"cannot be read: {e}", f"name a {what} file in UTF-8") from None


def _claimed(text: str, path: Path | None, outside: headers.Claims | None) -> KernelSource:
    inside = headers.read_comments(text, path, required=outside is None)
    claims = headers.merge(inside, outside)
    if claims is None:
        raise KernelError(path, 1, "no header: nothing says which op this is",
                          'begin the file with //! op = "..." and //! workgroups = ["..."], or put both into a .toml '
                          "of the same name beside it, or give --webgpu-op and --webgpu-workgroups")  # fmt: skip
    if claims.path is None:
        claims = replace(claims, path=None if path is None else str(path))
    return read_module(text, path, headers.build(claims))


def read_module(text: str, path: Path | None, header: Header) -> KernelSource:
    """The kernel of a text whose header is known."""
    try:
        module = read(text)
    except (SyntaxProblem, TokenError) as e:
        shown = text.splitlines()[e.line - 1].strip() if text else ""
        wants = " (a text with # lines is preprocessed first: --webgpu-preprocess)" if shown.startswith("#") else ""
        raise KernelError(path, e.line, e.message, f"this is not WGSL: {shown}{wants}") from None
    try:
        return _Reader(text, path, header, module).kernel()
    except RecursionError:
        raise KernelError(path, 1, "types or expressions are nested too deep to be read",
                          "write fewer of them within each other") from None  # fmt: skip


class _Reader:
    """From a module's declarations to a KernelSource."""

    def __init__(self, text: str, path: Path | None, header: Header, module: Module) -> None:
        self.text, self.path, self.header, self.module = text, path, header, module
        self.aliases = {n: d.type for n, d in module.of("alias").items()}
        self.struct_names = module.of("struct")
        self.constants = {n: text_of(d.value) for n, d in module.of("constant").items()}
        self.scope = Scope(self.constants)
        self.overrides = tuple(self.override(d) for d in module.of("override").values())
        self.scope = Scope(dict(self.constants) | {o.name: o.default for o in self.overrides})
        self.laid_out: dict[str, Struct] = {}
        self.layout = Layout(self.laid_out, lambda text: int(self.scope.value(text)))
        for d in self.struct_names.values():
            self.lay_out(d, ())

    def fail(self, line: int, message: str, remedy: str) -> KernelError:
        return KernelError(self.path, line, message, remedy)

    def kernel(self) -> KernelSource:
        functions = {n: Function(n, d.line, d, _used(d.body)) for n, d in self.module.of("function").items()}
        entries = self.entries(functions)
        variables = self.module.of("variable").values()
        lengths = _array_lengths(functions.values())
        bindings = tuple(self.binding(d, lengths) for d in variables if d.attribute("binding") or d.attribute("group"))
        kernel = KernelSource(
            self.path, self.text, self.header, bindings, tuple(self.laid_out.values()), self.overrides, entries,
            self.features(functions), _sha(self.text, self.header), self.constants,
            tuple(Workgroup(d.name, self.type(d), d.line) for d in variables if d.template[:1] == ("workgroup",)),
            functions, self.module,
        )  # fmt: skip
        self.check(kernel)
        return kernel

    def type(self, d: Named) -> WgslType:
        if d.type is None:
            raise self.fail(d.line, f"`{d.name}` has no type", "write it out: var<workgroup> sums: array<f32, 64>")
        return read_type(d.type, self.aliases, self.struct_names)

    def lay_out(self, d: Named, outer: tuple[str, ...]) -> None:
        if d.name in self.laid_out:
            return
        if d.name in outer:
            raise self.fail(d.line, f"struct {d.name} holds itself", "a struct may not contain its own type")
        members = [(m, read_type(m.type, self.aliases, self.struct_names)) for m in d.members]
        for _, type in members:
            if type.struct is not None:
                self.lay_out(self.struct_names[type.struct], (*outer, d.name))
        try:
            asked = [(m.name, t, self.number(m, "size"), self.number(m, "align")) for m, t in members]
            self.laid_out[d.name] = self.layout.lay_out(d.name, asked)
        except (Unsized, NotConstant):
            self.laid_out[d.name] = Struct(d.name, tuple(Field(m.name, t, 0, 0) for m, t in members), 0)

    def number(self, d: Named, attribute: str) -> int | None:
        found = d.attribute(attribute)
        if found is None:
            return None
        try:
            return int(self.scope.value(text_of(found.arguments[0])))
        except (NotConstant, IndexError):
            raise self.fail(d.line, f"@{attribute} of `{d.name}` is no constant", f"write @{attribute}(0)") from None

    def override(self, d: Named) -> Override:
        default = None if d.value is None else text_of(d.value)
        type = text_of(d.type) if d.type is not None else _literal_type(default or "")
        return Override(d.name, self.number(d, "id"), type, default, d.line)

    def binding(self, d: Named, lengths: set[str | None]) -> Binding:
        group, index = self.number(d, "group"), self.number(d, "binding")
        if group is None or index is None:
            missing = "@group" if group is None else "@binding"
            raise self.fail(d.line, f"`{d.name}` has no {missing}", "a resource needs both @group(0) and @binding(0)")
        space = d.template[0] if d.template else ""
        type = self.type(d)
        if space not in ("storage", "uniform"):
            what = type.text if not space else f"var<{space}>"
            raise self.fail(d.line, f"`{d.name}` is a {what}: textures and samplers are not supported",
                            "bind storage and uniform buffers: var<storage, read> x: array<f32>")  # fmt: skip
        access = d.template[1] if len(d.template) > 1 else "read"
        inner = self.laid_out.get(type.struct or "") if not type.is_array else None
        if space == "storage" and inner is not None and len(inner.fields) == 1 and inner.fields[0].type.is_array:
            type = replace(inner.fields[0].type, text=type.text)
        return Binding(d.name, group, index, space, access, type, d.name in lengths or None in lengths, d.line)

    def entries(self, functions: Mapping[str, Function]) -> tuple[EntryPoint, ...]:
        found = []
        for f in functions.values():
            if f.declaration.attribute("compute") is None:
                continue
            size = f.declaration.attribute("workgroup_size")
            if size is None:
                raise self.fail(f.line, f"entry point `{f.name}` has no @workgroup_size", "add @workgroup_size(64)")
            found.append(EntryPoint(f.name, tuple(text_of(a) for a in size.arguments), f.line,
                                    _reached(f.name, functions)))  # fmt: skip
        return tuple(found)

    def features(self, functions: Mapping[str, Function]) -> frozenset[str]:
        words = {t.text for t in self.module.tokens if t.kind == "word"} - set(functions)
        halves = any(t.kind == "number" and t.text.endswith("h") for t in self.module.tokens)
        short = any(re.fullmatch(r"(vec[234]|mat[234]x[234])h", w) for w in words)
        found = {FEATURES.get(e, e.replace("_", "-")) for e in self.module.enables}
        if "f16" in words or halves or short:
            found.add("shader-f16")
        if words & (SUBGROUP_FUNCTIONS | SUBGROUP_BUILTINS):
            found.add("subgroups")
        return frozenset(found)

    def check(self, kernel: KernelSource) -> None:
        names = [e.name for e in kernel.entries]
        if not names:
            raise self.fail(1, "no entry point", "mark a function with @compute @workgroup_size(64)")
        asked = [(p.entry, f"pass.{i}") for i, p in enumerate(self.header.passes)]
        if self.header.entry is not None:
            asked.append((self.header.entry, "entry"))
        for name, key in asked:
            if name not in names:
                raise kernel.header_error(key, f'there is no entry point "{name}"',
                                          nearest(name, names) + f"entry points here: {listing(names)}")  # fmt: skip
        if not asked and len(names) > 1:
            raise kernel.header_error("op", f"{len(names)} entry points: {listing(names)}",
                                      f'say which: entry = "{names[0]}", or a [[pass]] table for each')  # fmt: skip
        for key, what, known in (("bind", "variable", {b.name for b in kernel.bindings}),
                                 ("tune", "override", {o.name for o in kernel.overrides}),
                                 ("types", "alias", set(self.aliases))):  # fmt: skip
            for name in getattr(self.header, key):
                if name not in known:
                    raise kernel.header_error(f"{key}.{name}", f'[{key}] names "{name}", but there is no such {what}',
                                              nearest(name, known) + f"here: {listing(sorted(known))}")  # fmt: skip
        self.check_places(kernel)

    def check_places(self, kernel: KernelSource) -> None:
        """Two variables at one place are allowed only where no entry point uses both."""
        for a, b in itertools.combinations(kernel.bindings, 2):
            if (a.group, a.index) != (b.group, b.index):
                continue
            if any({a.name, b.name} <= e.uses for e in kernel.entries) or not any(
                {a.name, b.name} & e.uses for e in kernel.entries
            ):
                raise self.fail(b.line, f"`{b.name}` and `{a.name}` (line {a.line}) are both at "
                                f"@group({a.group}) @binding({a.index})", "give each its own @binding")  # fmt: skip


def _sha(text: str, header: Header) -> str:
    claims = repr(replace(header, path=None, lines={}))
    return hashlib.sha256(f"{text}\0{claims}".encode()).hexdigest()


def _literal_type(default: str) -> str:
    if default in ("true", "false"):
        return "bool"
    if default.endswith("u"):
        return "u32"
    return "f32" if any(c in default for c in ".eEf") and not default.startswith("0x") else "i32"


def _used(tokens: tuple[Token, ...]) -> frozenset[str]:
    return frozenset(t.text for before, t in itertools.pairwise(tokens) if t.kind == "word" and before.text != ".")


def _reached(entry: str, functions: Mapping[str, Function]) -> frozenset[str]:
    names: set[str] = set()
    waiting = [entry]
    while waiting:
        new = functions[waiting.pop()].uses - names
        names |= new
        waiting += [n for n in new if n in functions]
    return frozenset(names)


def _array_lengths(functions: Iterable[Function]) -> set[str | None]:
    """Variables given to arrayLength; None when one is given through a pointer, which may be any of them."""
    found: set[str | None] = set()
    for f in functions:
        words = [t.text for t in f.tokens if t.text not in ("(", "&")]
        spelled = [t.text for t in f.tokens]
        names = {b for a, b in itertools.pairwise(words) if a == "arrayLength"}
        direct = any(a == "arrayLength" and "&" in spelled[i : i + 4] for i, a in enumerate(spelled))
        found |= names if direct or not names else {None}
    return found
