"""A copy of a kernel in which invocations and workgroups are numbered backwards.

A correct kernel gives equal bits under either order. A schedule that happens to hide a race, a missing barrier or a
write after read shows it when the numbering is turned round (CONFORMANCE.md, each case, step 7).
"""

from __future__ import annotations

from itertools import pairwise

from pytest_webgpu.kernels.declarations import Named, text_of
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.kernels.tokens import Token, match_end, splice

_WORKGROUP_IDS = ("workgroup_id", "workgroup_index")
_REVERSED = ("global_invocation_id", "local_invocation_id", "local_invocation_index", *_WORKGROUP_IDS,
             "global_invocation_index")  # fmt: skip


def reversed_source(kernel: KernelSource, entry: str) -> str | None:
    """The code (as `kernel.code`, line for line) with every id of `entry` reversed: id' = total - 1 - id, each axis.

    None where the entry point asks for no id, and so has no order. Of a kernel with subgroup builtins only workgroup
    ids are reversed: the hardware says which invocations form a subgroup. Serves any number of workgroups.
    """
    declaration = kernel.functions[entry].declaration
    parameters = _signature(kernel, entry)
    wanted = [(p, names) for p in declaration.members if (names := _ids(kernel, p))]
    if not wanted:
        return None
    words = {t.text for t in kernel.module.tokens if t.kind == "word"}

    def fresh(name: str) -> str:
        while name in words:
            name += "_"
        return name

    forward = {p.name: fresh(f"forward_{p.name}") for p, _ in wanted}
    edits = [(t.start, t.end, forward[t.text]) for t, after in pairwise(parameters)
             if t.text in forward and after.text == ":"]  # fmt: skip
    counted = [(p.name, m) for p in declaration.members for m, b in _builtins(kernel, p) if b == "num_workgroups"]
    if counted:
        name, member = counted[0]
        groups = forward.get(name, name) + (f".{member}" if member else "")
    else:
        groups, close = fresh("forward_groups"), parameters[-1]
        comma = "" if parameters[-2].text == "," else ", "
        edits.append((close.start, close.start, f"{comma}@builtin(num_workgroups) {groups}: vec3<u32>"))
    size = ", ".join(f"u32({s})" for s in (*kernel.entry(entry).workgroup_size, "1", "1")[:3])
    turned = _Turned(groups, f"vec3<u32>({size})", whole="subgroups" not in kernel.features)
    lines = [_shadow(p, names, forward[p.name], turned) for p, names in wanted]
    brace = declaration.body[0]
    edits.append((brace.end, brace.end, " " + " ".join(lines)))
    return kernel.rewritten(splice(kernel.text, edits)).code


class _Turned:
    """Reversed values as WGSL, from the number of workgroups and the workgroup's size."""

    def __init__(self, groups: str, size: str, whole: bool) -> None:
        self.groups, self.size, self.whole = groups, size, whole

    def value(self, builtin: str, forward: str) -> str:
        groups, size = self.groups, self.size
        count = f"({groups}.x * {groups}.y * {groups}.z)"
        volume = f"({size}.x * {size}.y * {size}.z)"
        match builtin:
            case "workgroup_id":
                return f"{groups} - 1u - {forward}"
            case "workgroup_index":
                return f"{count} - 1u - {forward}"
            case "global_invocation_id" if self.whole:
                return f"{groups} * {size} - 1u - {forward}"
            case "global_invocation_id":
                return f"({groups} - 1u - {forward} / {size}) * {size} + {forward} % {size}"
            case "global_invocation_index" if self.whole:
                return f"{count} * {volume} - 1u - {forward}"
            case "global_invocation_index":
                return f"({count} - 1u - {forward} / {volume}) * {volume} + {forward} % {volume}"
            case "local_invocation_id" if self.whole:
                return f"{size} - 1u - {forward}"
            case "local_invocation_index" if self.whole:
                return f"{volume} - 1u - {forward}"
        return forward


def _shadow(parameter: Named, names: list[tuple[str, str]], forward: str, turned: _Turned) -> str:
    """The statement that gives the parameter's name to its reversed value."""
    if parameter.attribute("builtin"):
        return f"let {parameter.name} = {turned.value(names[0][1], forward)};"
    fields = [f"{parameter.name}.{m} = {turned.value(b, f'{forward}.{m}')};" for m, b in names]
    return f"var {parameter.name} = {forward}; {' '.join(fields)}"


def _builtins(kernel: KernelSource, parameter: Named) -> list[tuple[str, str]]:
    """(member or "", builtin) of an entry point's parameter, itself a builtin or a struct of them."""
    if (own := parameter.attribute("builtin")) is not None:
        return [("", text_of(own.arguments[0]))]
    struct = kernel.module.of("struct").get(text_of(parameter.type))
    members = struct.members if struct is not None else ()
    return [(m.name, text_of(a.arguments[0])) for m in members if (a := m.attribute("builtin")) is not None]


def _ids(kernel: KernelSource, parameter: Named) -> list[tuple[str, str]]:
    return [(m, b) for m, b in _builtins(kernel, parameter) if b in _REVERSED]


def _signature(kernel: KernelSource, entry: str) -> tuple[Token, ...]:
    """The tokens of an entry point's parameters, from the opening parenthesis to the closing one."""
    tokens = kernel.module.tokens
    begin = next(i for i, t in enumerate(tokens) if t.text == entry and tokens[i - 1].text == "fn") + 1
    return tokens[begin : match_end(tokens, begin) + 1]
