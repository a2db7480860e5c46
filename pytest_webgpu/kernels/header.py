"""The header of a kernel: TOML in leading `//!` lines, in a side file, or given as a dict. All keys: the README."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pytest_webgpu.kernels.errors import KernelError, listing, nearest
from pytest_webgpu.kernels.expression import Expression, ExpressionError, parse

STORAGES = ("f16x2", "i8x4", "q4_32")
"""Packed forms of a tensor in u32 words."""
TYPES = ("f32", "f16", "i32", "u32")


@dataclass(frozen=True)
class Pass:
    """One dispatch of a kernel that needs several."""

    entry: str
    workgroups: tuple[Expression, ...]
    line: int = 1


@dataclass(frozen=True)
class Scratch:
    """A buffer between passes."""

    dtype: str
    shape: tuple[Expression, ...]


Setting = tuple[Expression, ...]
"""What `[set]` gives to a field: one expression a component."""


@dataclass(frozen=True)
class Header:
    """What a kernel claims. `lines` has the line of each key in `path`, for messages.

    `optional`: arguments that the contract may leave out; a variant without one lacks the lines that end in
    `//? ARGUMENT`. `software`: those of the `[tune]` values that suit a software adapter, where invocations are lanes
    of a CPU's vectors and barriers are dear.
    """

    op: str
    workgroups: tuple[Expression, ...] = ()
    entry: str | None = None
    passes: tuple[Pass, ...] = ()
    scratch: Mapping[str, Scratch] = field(default_factory=dict)
    bind: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    tune: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    software: Mapping[str, int] = field(default_factory=dict)
    set: Mapping[str, Setting] = field(default_factory=dict)
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    requires: tuple[Expression, ...] = ()
    prefer: tuple[Expression, ...] = ()
    guarded: bool = False
    deterministic: bool = True
    path: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    def line(self, key: str) -> int:
        """The line of `key` ("requires", "tune.WG"), or of the key that holds it."""
        return self.lines.get(key, self.lines.get(key.split(".")[0], self.lines.get("op", 1)))


KEYS = tuple("pass" if f.name == "passes" else f.name for f in fields(Header) if f.name not in ("path", "lines"))


@dataclass(frozen=True)
class Claims:
    """Header keys as TOML gave them, with where each was written."""

    keys: Mapping[str, Any]
    path: str | None
    lines: Mapping[str, int]


def read_comments(text: str, path: Path | str | None, *, required: bool) -> Claims | None:
    """The keys in the leading `//!` lines, or None where there are none.

    Not `required` (someone gives a header from outside): `//!` lines with neither `op` nor `workgroups` are prose, and
    left alone.
    """
    lines, leading, toml = text.splitlines(), True, []
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if stripped.startswith("//!"):
            if not leading:
                if not re.match(r"//!\s*(op\s*=|\[)", stripped):
                    continue
                raise KernelError(path, number, "a header that is not first in its file",
                                  "move every `//!` line above the code")  # fmt: skip
            toml.append(stripped[3:])
        else:
            leading = leading and (not stripped or stripped.startswith("//"))
            toml.append("")  # so that TOML's line numbers are the file's
    if not any(toml):
        return None
    if not required and not any(re.match(r"\s*(op|workgroups)\s*=", line) for line in toml):
        return None
    return read_toml("\n".join(toml), path)


def read_toml(text: str, path: Path | str | None) -> Claims:
    """The keys of a header's TOML, line for line as in its file."""
    try:
        keys = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        place = re.search(r"\(at line (\d+)", str(e))
        line = int(place[1]) if place else max(1, len(text.rstrip().splitlines()))
        raise KernelError(path, line, "the header is no TOML: " + str(e).partition(" (at ")[0],
                          'write KEY = VALUE, strings in quotes: op = "rms_norm"') from None  # fmt: skip
    except (ValueError, RecursionError) as e:  # a number of thousands of digits, a list in a thousand lists
        line = max(enumerate(text.splitlines(), 1), key=lambda numbered: len(numbered[1]))[0]
        raise KernelError(path, line, f"the header cannot be read: {e}",
                          "write short numbers, and lists of strings or numbers") from None  # fmt: skip
    lines: dict[str, int] = {}
    table, headings = "", Counter[str]()
    for number, written in enumerate(text.splitlines(), 1):
        if heading := re.match(r"\s*\[+\s*([\w.]+)\s*\]+", written):
            table = heading[1]
            lines.setdefault(table, number)
            lines[f"{table}.{headings[table]}"] = number  # the n-th [[pass]]
            headings[table] += 1
        elif key := re.match(r"""\s*["']?([\w.]+)["']?\s*=""", written):
            lines.setdefault(f"{table}.{key[1]}" if table else key[1], number)
    return Claims(keys, None if path is None else str(path), lines)


def merge(first: Claims | None, second: Claims | None) -> Claims | None:
    """The keys of both; the second's win."""
    if first is None or second is None:
        return second or first
    keys = dict(first.keys) | dict(second.keys)
    if "pass" in second.keys or "workgroups" in second.keys:
        keys = {k: v for k, v in keys.items() if k not in ("pass", "workgroups") or k in second.keys}
    return Claims(keys, first.path if first.path == second.path else second.path or first.path,
                  dict(first.lines) | dict(second.lines))  # fmt: skip


def build(claims: Claims) -> Header:
    """The header that the keys describe; KernelError for what they may not say."""
    return _Reader(claims).header()


class _Reader:
    def __init__(self, claims: Claims) -> None:
        self.keys, self.path, self.lines = claims.keys, claims.path, claims.lines

    def fail(self, key: str, message: str, remedy: str) -> KernelError:
        line = self.lines.get(key, self.lines.get(key.split(".")[0], self.lines.get("op", 1)))
        return KernelError(self.path, line, message, remedy)

    def header(self) -> Header:
        for key in self.keys:
            if key not in KEYS:
                raise self.fail(key, f'"{key}" is no key of a header', nearest(key, KEYS) + f"keys: {listing(KEYS)}")
        op = self.typed("op", self.keys.get("op"), str, 'op = "rms_norm"')
        if op is None:
            raise self.fail("op", "the header names no op", 'add op = "rms_norm"')
        header = Header(
            op=op,
            workgroups=self.workgroups("workgroups", self.keys.get("workgroups", [])),
            entry=self.typed("entry", self.keys.get("entry"), str, 'entry = "main"'),
            passes=tuple(self.one_pass(i, p) for i, p in enumerate(self.typed("pass", self.keys.get("pass", []), list,
                                                                                "[[pass]]"))),
            scratch={k: self.scratch(k, v) for k, v in self.table("scratch").items()},
            bind={k: self.typed(f"bind.{k}", v, str, 'y = "out"') for k, v in self.table("bind").items()},
            storage={k: self.choice(f"storage.{k}", v, STORAGES) for k, v in self.table("storage").items()},
            tune={k: self.tune(k, v) for k, v in self.table("tune").items()},
            software={k: self.software(k, v) for k, v in self.table("software").items()},
            set={k: self.expressions(f"set.{k}", v if isinstance(v, list) else [v])
                 for k, v in self.table("set").items()},
            types={k: tuple(self.choice(f"types.{k}", t, TYPES) for t in (v if isinstance(v, list) else [v]))
                   for k, v in self.table("types").items()},
            optional=self.optional(),
            requires=self.conditions("requires"),
            prefer=self.conditions("prefer"),
            guarded=bool(self.typed("guarded", self.keys.get("guarded", False), bool, "guarded = true")),
            deterministic=bool(self.typed("deterministic", self.keys.get("deterministic", True), bool,
                                          "deterministic = false")),
            path=self.path,
            lines=self.lines,
        )  # fmt: skip
        if not header.workgroups and not header.passes:
            raise self.fail("op", "the header does not say how many workgroups to dispatch",
                            'add workgroups = ["rows"] (up to three expressions), or [[pass]] tables')  # fmt: skip
        if header.workgroups and header.passes:
            raise self.fail("workgroups", "workgroups stands beside [[pass]] tables",
                            "give each [[pass]] its own workgroups and take this one out")  # fmt: skip
        return header

    def typed(self, key: str, value: Any, kind: type, example: str) -> Any:
        if value is not None and not isinstance(value, kind):
            raise self.fail(key, f'"{key}" is {value!r}', f"write it so: {example}")
        return value

    def choice(self, key: str, value: Any, choices: tuple[str, ...]) -> str:
        if value not in choices:
            raise self.fail(key, f'"{key}" is {value!r}', f"one of: {listing(choices)}")
        return str(value)

    def table(self, key: str) -> Mapping[str, Any]:
        value: Mapping[str, Any] = self.typed(key, self.keys.get(key, {}), dict, f"[{key}]")
        return value

    def optional(self) -> tuple[str, ...]:
        value = self.keys.get("optional", [])
        names = value if isinstance(value, list) else [value]
        if not all(isinstance(n, str) for n in names):
            raise self.fail("optional", f"optional is {value!r}", 'list names of arguments: optional = ["bias"]')
        return tuple(names)

    def expression(self, key: str, value: Any) -> Expression:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise self.fail(key, f'"{key}" is {value!r}', 'write an expression in quotes: "ceil_div(n, 256)"')
        try:
            return parse(value if isinstance(value, str) else repr(value))
        except ExpressionError as e:
            raise self.fail(key, e.message, e.remedy) from None

    def expressions(self, key: str, values: Any) -> tuple[Expression, ...]:
        return tuple(self.expression(key, v) for v in values)

    def workgroups(self, key: str, value: Any) -> tuple[Expression, ...]:
        found = self.expressions(key, value if isinstance(value, list) else [value])
        room = 3 - sum(e.folds for e in found)
        if len(found) > room or any(e.is_condition for e in found) or (found and any(e.folds for e in found[1:])):
            raise self.fail(key, f"{len(found)} expressions for workgroups",
                            'up to three numbers; fold2d stands first and counts as two')  # fmt: skip
        return found

    def conditions(self, key: str) -> tuple[Expression, ...]:
        value = self.keys.get(key, [])
        found = self.expressions(key, value if isinstance(value, list) else [value])
        for e in found:
            if not e.is_condition:
                raise self.fail(key, f'"{e.text}" in {key} is no condition', 'compare: "cols % 4 == 0"')
        return found

    def one_pass(self, index: int, value: Any) -> Pass:
        key = f"pass.{index}"
        if not isinstance(value, dict) or set(value) != {"entry", "workgroups"}:
            raise self.fail(key, "a [[pass]] that is not an entry and its workgroups",
                            'write entry = "main" and workgroups = ["rows"] below each [[pass]]')  # fmt: skip
        return Pass(str(value["entry"]), self.workgroups(key, value["workgroups"]), self.lines.get(key, 1))

    def scratch(self, name: str, value: Any) -> Scratch:
        key = f"scratch.{name}"
        if not isinstance(value, dict) or set(value) != {"dtype", "shape"} or not isinstance(value["shape"], list):
            raise self.fail(key, f'scratch "{name}" needs a dtype and a shape',
                            f'{name} = {{dtype = "f32", shape = ["rows", "SPLIT"]}}')  # fmt: skip
        return Scratch(self.choice(key, value["dtype"], TYPES), self.expressions(key, value["shape"]))

    def tune(self, name: str, value: Any) -> tuple[int, ...]:
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(v, int) for v in values):
            raise self.fail(f"tune.{name}", f"tune.{name} is {value!r}", f"list whole numbers: {name} = [64, 128]")
        return tuple(int(v) for v in values)

    def software(self, name: str, value: Any) -> int:
        listed = self.table("tune").get(name, [])
        if value not in (listed if isinstance(listed, list) else [listed]):
            raise self.fail(f"software.{name}", f"software.{name} is {value!r}, which [tune] does not list",
                            f"only what is checked may run: {name} = {listed}")  # fmt: skip
        return int(value)
