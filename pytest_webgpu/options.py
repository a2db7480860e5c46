"""Every setting in one table: option, ini key, environment variable, default and help.

A setting `dims` is the option `--webgpu-dims` and the ini key `webgpu_dims`; where the table says so also the
environment variable `PYTEST_WEBGPU_DIMS`. The option wins, then the environment, then the ini file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

IMPLEMENTATIONS = ("wgpu-native", "dawn", "chrome", "firefox", "safari", "url", "all")
PROCESSES = 3  # of which a session's value is the least
BACKENDS = ("auto", "vulkan", "metal", "d3d12", "gl", "all")


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    `kind` says what the value becomes: `text` a string; `words` a tuple of strings, repeatable or separated by
    commas; `lines` a tuple of strings, repeatable, commas kept; `pairs` a tuple of (name, value) from NAME=VALUE,
    repeatable or separated by commas; `flag` a bool.
    """

    name: str
    help: str
    kind: Literal["text", "words", "lines", "pairs", "flag"] = "text"
    default: Any = None
    choices: tuple[str, ...] = ()
    environment: bool = False
    metavar: str | None = None

    @property
    def option(self) -> str:
        return f"--webgpu-{self.name}"

    @property
    def key(self) -> str:
        return "webgpu_" + self.name.replace("-", "_")

    @property
    def variable(self) -> str | None:
        return f"PYTEST_{self.key.upper()}" if self.environment else None


TABLE: tuple[Setting, ...] = (
    # where it runs
    Setting("backend", "backend of the adapter; auto takes the best adapter, all takes each", "words", ("auto",),
            BACKENDS, environment=True),
    Setting("implementation", "implementation of WebGPU", "words", ("wgpu-native",), IMPLEMENTATIONS,
            environment=True),
    Setting("adapter", 'part of the adapter\'s name; "NAME#2" is the second of a kind', environment=True,
            metavar="NAME"),
    Setting("ops", "list the ops, with what a kernel calls their tensors, dims and scalars, then stop", "flag", False),
    Setting("list", "list implementations, backends and adapters, then stop", "flag", False),
    Setting("without", "features that the device must do without", "words", (), metavar="FEATURE"),
    Setting("limits", "limits of the device, or max for all that the adapter has", "pairs", (),
            metavar="LIMIT=VALUE"),
    Setting("reference", "where the reference runs", default="cpu", choices=("cpu", "cuda")),
    # which kernels, and what their headers would say
    Setting("kernel", "put this kernel in the place of the shipped ones of its op, in every suite", "lines", (),
            metavar="FILE"),
    Setting("files", "patterns of .wgsl files to collect though no header names their op", "words", (),
            metavar="GLOB"),
    Setting("op", "the op that the .wgsl files on the command line implement (module:function for your own)",
            metavar="OP"),
    Setting("workgroups", "workgroups of a dispatch, an expression an axis", "lines", (), metavar="EXPR"),
    Setting("entry", "entry point of the kernel", metavar="NAME"),
    Setting("bind", "WGSL variable and the contract's name for it", "pairs", (), metavar="VARIABLE=NAME"),
    Setting("storage", "packed form of a binding: f16x2, i8x4, q4_32", "pairs", (), metavar="VARIABLE=FORM"),
    Setting("set", "value of a uniform field or override that no name matches", "pairs", (), metavar="FIELD=EXPR"),
    Setting("tune", "override that is no dim, and its value", "pairs", (), metavar="OVERRIDE=INTEGER"),
    Setting("requires", "precondition on dims", "lines", (), metavar="EXPR"),
    Setting("header", "any further line of a header, as in its TOML", "lines", (), metavar="TOML"),
    Setting("preprocess", "command that prints the WGSL to run; {file} is the kernel's file", metavar="CMD"),
    Setting("mutants", "also make each fault in the kernels, one at a time, and count those that the checks find",
            "flag", False),
    Setting("most-mutants", "make at most so many faults in a kernel, as unlike each other as can be", metavar="N"),
    Setting("replay", "run one case of a failed check again", metavar="CASE"),
    # how fast
    Setting("bench", "also time the .wgsl files on the command line against the shipped variants", "flag", False),
    Setting("dims", "dims to time at, NAME=INTEGER separated by commas", "lines", (), metavar="DIMS"),
    Setting("against", "time against the kernels of a git revision, or against a file", metavar="REV"),
    Setting("trace", "write a timeline of one token (Perfetto's JSON), of --webgpu-model with the kernel that is timed",
            metavar="FILE"),
    # the model
    Setting("model", "tiny, qwen2.5-0.5b, qwen2.5-1.5b, or a folder in Hugging Face layout", "words", ("tiny",),
            metavar="MODEL"),
    Setting("dtype", "dtype of the model's weights and cache", "words", ("f32", "f16"), ("f32", "f16", "q4")),
    Setting("fusions", "fusions of the model's plan: all, none, or names", "words", ("all",), metavar="NAME"),
    # what is kept
    Setting("baselines-dir", "folder of recorded baselines", environment=True, metavar="FOLDER"),
    Setting("update-baselines", "record what is measured as a baseline", "flag", False),
    Setting("gate", "what a comparison with the baseline may do to the run", default="warn",
            choices=("off", "warn", "fail", "strict"), environment=True),
    Setting("gate-processes", "fresh processes of which a figure is the least: 3 where --webgpu-gate or "
            "--webgpu-update-baselines asks, else 1", metavar="N"),
    Setting("gate-self-test", "judge this machine against itself, and slowdowns of 5, 10 and 20 % that are real work; "
            "say how many were called worse, then stop", "flag", False),
    Setting("gate-sessions", "sessions of the self-test, and trials of its paired rule", default="10", metavar="N"),
    Setting("accept-near-miss", "compare also with baselines of another driver, OS, CPU or version of the "
            "implementation, until there are three of this one", "flag", False),
    Setting("report", "write a report; the suffix says how: .json, .md, .html", "lines", (), metavar="FILE"),
)  # fmt: skip


@dataclass(frozen=True)
class Value:
    """What a setting came to, and from where: "option", "environment", "ini" or "default"."""

    value: Any
    source: Literal["option", "environment", "ini", "default"]


class Settings(Mapping[str, Any]):
    """The resolved table, by setting name: `settings["backend"]`; `source("backend")` says where it came from."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)
        self._looked_at: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self._looked_at.add(name)
        return self._values[name].value

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def source(self, name: str) -> str:
        return self._values[name].source

    def named(self, name: str) -> bool:
        """Whether the user gave this setting, anywhere."""
        return self._values[name].source != "default"

    def given(self, *names: str) -> list[str]:
        """Those of these settings that the user gave, anywhere, as options of a command line."""
        rows = {s.name: s for s in TABLE}
        return [f"{rows[name].option}={_plain(self._values[name].value)}" for name in names if self.named(name)]

    def idle(self) -> list[str]:
        """The options of the command line whose values nothing has asked for so far."""
        return [s.option for s in TABLE if self.source(s.name) == "option" and s.name not in self._looked_at]

    def describe(self) -> list[str]:
        """What was given and from where, one `name=value (source)` a setting."""
        return [
            f"{s.name}={_plain(self._values[s.name].value)} ({_origin(s, self.source(s.name))})"
            for s in TABLE
            if self.named(s.name)
        ]


def register(parser: pytest.Parser) -> None:
    """Adds the whole table to pytest's options and ini keys."""
    group = parser.getgroup("webgpu", "WebGPU compute kernels")
    for s in TABLE:
        text = s.help + (f" ({', '.join(s.choices)})" if s.choices else "")
        text += f" [ini: {s.key}" + (f", environment: {s.variable}]" if s.variable else "]")
        text = text.replace("%", "%%")
        if s.kind == "flag":
            group.addoption(s.option, dest=s.key, action="store_const", const=True, default=None, help=text)
        else:
            action = "store" if s.kind == "text" else "append"
            metavar = s.metavar or s.name.upper()
            group.addoption(s.option, dest=s.key, action=action, default=None, metavar=metavar, help=text)
        types: dict[str, Any] = {"text": "string", "flag": "bool"}
        parser.addini(s.key, text.replace("%%", "%"), type=types.get(s.kind, "linelist"), default=None)


def resolve(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> Settings:
    """Option, else environment, else ini, else default, for every row. Raises pytest.UsageError for a bad value."""
    return Settings({s.name: _resolve(s, config, environment) for s in TABLE})


def header(settings: Settings) -> dict[str, Any]:
    """The header keys that options give, as a header's own TOML would: they win over the kernel's and its side file's.

    Raises pytest.UsageError where `--webgpu-header` is no TOML, or `--webgpu-tune` no integer.
    """
    keys: dict[str, Any] = {}
    for name in ("op", "entry"):
        if settings[name]:
            keys[name] = settings[name]
    for name in ("workgroups", "requires"):
        if settings[name]:
            keys[name] = list(settings[name])
    for name in ("bind", "storage", "set"):
        if settings[name]:
            keys[name] = dict(settings[name])
    if settings["tune"]:
        keys["tune"] = {name: [_tuned(name, value)] for name, value in settings["tune"]}
    if settings["header"]:
        import tomllib  # 10 ms that most runs need not pay

        try:
            keys.update(tomllib.loads("\n".join(settings["header"])))
        except (ValueError, RecursionError) as error:  # TOMLDecodeError, and a number of thousands of digits
            raise pytest.UsageError(
                f"--webgpu-header: {error}; write it as in a header, e.g. 'guarded = true'"
            ) from None
    return keys


def processes(settings: Settings) -> int:
    """How many fresh processes a session is: three where it is judged or recorded because that was asked for, else
    this one. Raises pytest.UsageError for what is no number of processes."""
    given = settings["gate-processes"]
    if given is not None:
        return whole(given, "--webgpu-gate-processes", 1)
    asked = settings["gate"] != "off" and settings.named("gate")
    return PROCESSES if asked or settings["update-baselines"] else 1


def whole(text: str, where: str, least: int) -> int:
    """The integer that an option's text is. Raises pytest.UsageError for any other text, and below `least`."""
    plain = text.strip()
    if not (plain.isascii() and plain.isdecimal() and len(plain) < 20 and int(plain) >= least):
        raise pytest.UsageError(f"{where}: {text!r} is no integer from {least}")
    return int(plain)


def _tuned(name: str, value: str) -> int:
    where = f"--webgpu-tune={name}={value}"
    return -whole(value[1:], where, 0) if value.startswith("-") else whole(value, where, 0)


def _resolve(s: Setting, config: pytest.Config, environment: Mapping[str, str]) -> Value:
    given = config.getoption(s.key)
    if given is not None:
        return Value(_parse(s, given, s.option), "option")
    if s.variable and environment.get(s.variable, "").strip():
        text = environment[s.variable].strip()
        return Value(_parse(s, text if s.kind in ("text", "flag") else [text], s.variable), "environment")
    given = config.getini(s.key)
    if given is not None and given != []:
        return Value(_parse(s, given, f"{s.key} in {config.inipath or '-o'}"), "ini")
    return Value(s.default, "default")


def _parse(s: Setting, given: Any, where: str) -> Any:
    if s.kind in ("text", "flag"):
        value = given
    elif s.kind == "lines":
        value = tuple(given)
    elif s.kind == "words":
        value = tuple(word.strip() for text in given for word in text.split(",") if word.strip())
    else:  # a comma inside an expression, as in min(a, b), does not end a pair
        value = tuple(_pair(s, word, where) for text in given for word in re.split(r",(?=[^,=]+=(?!=))", text))
    for word in (value or ("",)) if isinstance(value, tuple) else (value,):
        if s.choices and word not in s.choices:
            raise pytest.UsageError(f"{where}: {word!r} is none of {', '.join(s.choices)}")
    return value


def _pair(s: Setting, word: str, where: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in word.partition("="))
    if s.name == "limits" and word.strip() == "max":
        return "max", ""
    if not (name and equals and value):
        raise pytest.UsageError(f"{where}: {word!r} is not NAME=VALUE")
    return name, value


def _origin(s: Setting, source: str) -> str:
    return f"environment {s.variable}" if source == "environment" else source


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join("=".join(v) if isinstance(v, tuple) else v for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
