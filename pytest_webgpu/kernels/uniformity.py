"""Where a barrier stands in control flow that not every invocation of a workgroup takes (WGSL, "Uniformity analysis").

An approximation of the specification's analysis: a variable is non-uniform when any assignment to it is. naga lets
such barriers pass, Dawn refuses them, and what a GPU does is undefined.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_webgpu.kernels.declarations import Named, text_of
from pytest_webgpu.kernels.kernel import SUBGROUP_FUNCTIONS, Function, KernelSource
from pytest_webgpu.kernels.statements import Range, Statement, arguments, parse_body
from pytest_webgpu.kernels.tokens import Token, match_end

BARRIERS = ("workgroupBarrier", "storageBarrier", "textureBarrier", "workgroupUniformLoad")
_UNIFORM_BUILTINS = ("workgroup_id", "workgroup_index", "num_workgroups", "subgroup_size", "num_subgroups")
_DECLARING = ("let", "var", "const")


@dataclass(frozen=True)
class Misplaced:
    """A barrier, its line, and why not every invocation comes there."""

    barrier: str
    line: int
    reason: str


def misplaced_barriers(kernel: KernelSource, entry: str) -> tuple[Misplaced, ...]:
    """Every barrier of an entry point, its helpers' included, that stands in non-uniform control flow."""
    function = kernel.functions[entry]
    varying = {n for p in function.declaration.members for n in _varying_builtins(kernel, p)}
    walk = _Walk(kernel, function, frozenset(varying))
    walk.run(None)
    return tuple(dict.fromkeys(walk.found))


def _varying_builtins(kernel: KernelSource, parameter: Named) -> list[str]:
    """`gid`, or `ids.gid` of a struct, for each builtin that differs within a workgroup."""
    if (own := parameter.attribute("builtin")) is not None:
        return [] if text_of(own.arguments[0]) in _UNIFORM_BUILTINS else [parameter.name]
    struct = kernel.module.of("struct").get(text_of(parameter.type))
    members = struct.members if struct is not None else ()
    return [f"{parameter.name}.{m.name}" for m in members
            if (a := m.attribute("builtin")) and text_of(a.arguments[0]) not in _UNIFORM_BUILTINS]  # fmt: skip


@dataclass
class _Walk:
    """One function under one set of varying parameters. Names of locals carry the place of their declaration."""

    kernel: KernelSource
    function: Function
    varying_parameters: frozenset[str]
    found: list[Misplaced] = field(default_factory=list)
    varying: set[str] = field(default_factory=set)

    def run(self, control: str | None) -> None:
        body = parse_body(self.function.tokens)
        self.varying = set(self.varying_parameters)
        before = -1
        while len(self.varying) != before:  # a loop's later statements reach its earlier ones
            before, self.found = len(self.varying), []
            self.scopes: list[dict[str, str]] = [{p.name: p.name for p in self.function.declaration.members}]
            self.block(body.body, control)

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self.function.tokens

    def block(self, statements: tuple[Statement, ...], control: str | None) -> dict[str, str]:
        """Visits statements in order; gives the exits (return, break, continue) that only some invocations take."""
        self.scopes.append({})
        exits: dict[str, str] = {}
        for statement in statements:
            exits |= self.statement(statement, control)
            control = control or next(iter(exits.values()), None)
        self.scopes.pop()
        return exits

    def statement(self, s: Statement, control: str | None) -> dict[str, str]:
        line = self.tokens[s.at[0]].line
        if s.kind in ("return", "break", "continue"):
            conditional = s.kind == "break" and s.head[1] > s.head[0]  # `break if` of a continuing block
            why = control or (self.why(s.head, line) if conditional else None)
            self.expression(s.head, control)
            after = f"after the {s.kind} in line {line}, which not every invocation takes ({why})"
            return {s.kind: after} if why else {}
        if s.kind == "plain":
            self.expression(s.head, control)
            self.assign(s.head, control)
            return {}
        if s.kind in ("for", "while", "loop"):
            return self.loop(s, control, line)
        self.expression(s.head, control)
        inner = control or (self.why(s.head, line) if s.kind in ("if", "switch") else None)
        exits = self.block(s.body, inner) | self.block(s.other, inner)
        return {k: v for k, v in exits.items() if k != "break"} if s.kind == "switch" else exits

    def loop(self, s: Statement, control: str | None, line: int) -> dict[str, str]:
        self.scopes.append({})
        if s.init is not None:
            self.statement(s.init, control)
        self.expression(s.head, control)
        inner = control or self.why(s.head, line)
        exits = self.block(s.body, inner)
        if exits and inner is None:  # the next iteration begins with those that stayed
            exits |= self.block(s.body, next(iter(exits.values())))
        if s.update is not None:
            self.statement(s.update, inner or next(iter(exits.values()), None))
        self.scopes.pop()
        return {k: v for k, v in exits.items() if k == "return"}

    def assign(self, at: Range, control: str | None) -> None:
        """Learns which variable a statement writes, and whether what it writes varies."""
        tokens = self.tokens[at[0] : at[1]]
        if not tokens:
            return
        line = tokens[0].line
        sign = next((i for i in range(at[0], at[1]) if self.assigns(i)), None)
        if tokens[0].text in _DECLARING:
            begin = 1 if tokens[1].kind != "open" else match_end(tokens, 1) + 1
            name = f"{tokens[begin].text}@{tokens[begin].start}"
            if sign is not None and self.why((sign + 1, at[1]), line):
                self.varying.add(name)
            self.scopes[-1][tokens[begin].text] = name
            return
        root = next((t.text for t in tokens if t.kind == "word"), "")
        written = self.resolve(root)
        if written is not None and sign is not None and (control or self.why(at, line)):
            self.varying.add(written)

    def assigns(self, i: int) -> bool:
        text = self.tokens[i].text
        return text in ("++", "--") or (text.endswith("=") and text not in ("==", "!=", "<=", ">=")
                                        and self.tokens[i].kind == "sign")  # fmt: skip

    def resolve(self, name: str) -> str | None:
        return next((s[name] for s in reversed(self.scopes) if name in s), None)

    def why(self, at: Range, line: int) -> str | None:
        """What makes an expression differ between invocations: `line 7 depends on lid`, or None."""
        i = at[0]
        while i < at[1]:
            token = self.tokens[i]
            if token.kind == "word" and not (i and self.tokens[i - 1].text == "."):
                if token.text in ("arrayLength", "workgroupUniformLoad"):
                    i = match_end(self.tokens, i + 1)  # uniform whatever their argument
                elif self.differs(i):
                    return f"line {line} depends on `{token.text}`"
            i += 1
        return None

    def differs(self, i: int) -> bool:
        name = self.tokens[i].text
        local = self.resolve(name)
        if local is not None:
            member = f"{local}.{self.tokens[i + 2].text}" if i + 2 < len(self.tokens) else ""
            return local in self.varying or (self.tokens[i + 1].text == "." and member in self.varying)
        return _differs(self.kernel, name, frozenset())

    def expression(self, at: Range, control: str | None) -> None:
        """Finds the barriers, and the helpers with barriers, that an expression calls."""
        for i in range(*at):
            name, line = self.tokens[i].text, self.tokens[i].line
            if name in BARRIERS and control:
                self.found.append(Misplaced(name, line, control))
            elif name == "workgroupUniformLoad":
                place = next((j for j in range(i, at[1]) if self.tokens[j].text == "["), None)
                if place is not None and (why := self.why((place, match_end(self.tokens, place)), line)):
                    self.found.append(Misplaced(name, line, f"which place it loads differs ({why})"))
            helper = self.kernel.functions.get(name)
            if helper is not None and i + 1 < len(self.tokens) and self.tokens[i + 1].text == "(":
                self.call(helper, i, control)

    def call(self, helper: Function, i: int, control: str | None) -> None:
        end = match_end(self.tokens, i + 1)
        given = arguments(self.tokens, (i + 2, end))
        names = [p.name for p in helper.declaration.members]
        varying = frozenset(n for n, at in zip(names, given, strict=False) if self.why(at, self.tokens[i].line))
        if _has_barrier(self.kernel, helper):
            inner = _Walk(self.kernel, helper, varying)
            inner.run(control and f"called in line {self.tokens[i].line} {control}")
            self.found += inner.found
        for begin, _ in given:
            pointed = self.resolve(self.tokens[begin + 1].text) if self.tokens[begin].text == "&" else None
            if pointed is not None and (control or varying or _differs(self.kernel, helper.name, frozenset())):
                self.varying.add(pointed)


def _differs(kernel: KernelSource, name: str, seen: frozenset[str]) -> bool:
    """Whether a module's name (or what a function reads) may differ between the invocations of a workgroup."""
    if name in SUBGROUP_FUNCTIONS or any(w.name == name for w in kernel.workgroup):
        return True
    binding = next((b for b in kernel.bindings if b.name == name), None)
    if binding is not None:
        return binding.access != "read"
    variable = kernel.module.of("variable").get(name)
    if variable is not None:
        return True  # private
    function = kernel.functions.get(name)
    return function is not None and name not in seen and any(_differs(kernel, n, seen | {name}) for n in function.uses)


def _has_barrier(kernel: KernelSource, function: Function) -> bool:
    return any(n in BARRIERS or (n in kernel.functions and n != function.name
                                 and _has_barrier(kernel, kernel.functions[n])) for n in function.uses)  # fmt: skip
