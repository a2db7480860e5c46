"""Mutants that are no faults: `equivalent.toml` beside the kernels says which, and why.

    [[equivalent]]
    reason = "TILE_N is 1, 2 or 4"
    kernels = ["linear*"]                      # patterns of file names without .wgsl; all where absent
    functions = ["main"]                       # those that the line stands in; all where absent
    faults = ["last element left out"]         # in full, or up to the colon
    lines = ["if (TILE_N > 2u) {"]             # the first changed line as it stands in the kernel, without comment
    into = ["if (TILE_N > (2u) + 1) {"]        # what the fault makes of it; all where absent
    next = ["sum? = *"]                        # patterns of the line behind it; all where absent
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.kernels.mutants import Mutant

NAME = "equivalent.toml"
_PATTERNS = ("kernels", "functions", "faults", "lines", "into", "next")
_KEYS = {"reason", *_PATTERNS}


@dataclass(frozen=True)
class Equivalent:
    """One entry: every mutant that it describes changes nothing, for `reason`."""

    reason: str
    kernels: tuple[str, ...]
    functions: tuple[str, ...]
    faults: tuple[str, ...]
    lines: tuple[str, ...]
    into: tuple[str, ...]
    next: tuple[str, ...]

    def describes(self, kernel: KernelSource, mutant: Mutant) -> bool:
        stem = kernel.path.name.removesuffix(".wgsl") if kernel.path else ""
        line, behind, *_ = map(plain, [*kernel.text.splitlines()[mutant.line - 1 : mutant.line + 1], ""])
        return (
            not {mutant.fault, mutant.fault.partition(":")[0]}.isdisjoint(self.faults)
            and line in self.lines
            and (not self.into or any(plain(c[1:]) in self.into for c in mutant.changed if c[0] == "+"))
            and (not self.next or any(fnmatchcase(behind, pattern) for pattern in self.next))
            and (not self.functions or _function(kernel, mutant.line) in self.functions)
            and any(fnmatchcase(stem, pattern) for pattern in self.kernels)
        )


def plain(line: str) -> str:
    """A line of WGSL without its comment and the space around it."""
    return line.partition("//")[0].strip()


def _function(kernel: KernelSource, line: int) -> str:
    """The name of the function that a line stands in."""
    before = [f for f in kernel.functions.values() if f.line <= line]
    return max(before, key=lambda f: f.line).name if before else ""


def read_equivalent(folder: Path) -> list[Equivalent]:
    """The entries of a folder; none where it has no such file. Raises KernelError."""
    path = folder / NAME
    if not path.is_file():
        return []
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    except tomllib.TOMLDecodeError as error:
        raise KernelError(path, 1, f"is no TOML: {error}", "write [[equivalent]] tables") from None
    found = []
    for number, entry in enumerate(entries, 1):
        wrong = sorted(set(entry) - _KEYS) or [k for k in ("reason", "faults", "lines") if not entry.get(k)]
        if wrong:
            raise KernelError(path, 1, f"entry {number}: {wrong[0]}", f"an entry has {', '.join(sorted(_KEYS))}")
        given = {"kernels": ("*",), **{key: tuple(entry[key]) for key in entry if key != "reason"}}
        found.append(Equivalent(entry["reason"], *(given.get(key, ()) for key in _PATTERNS)))
    return found


def reason_of(kernel: KernelSource, mutant: Mutant, entries: Sequence[Equivalent]) -> str | None:
    """Why the mutant is no fault; None where no entry says so."""
    return next((e.reason for e in entries if e.describes(kernel, mutant)), None)
