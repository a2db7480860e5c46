"""What one pytest run holds: its settings, the adapters that it chose, its kernels, and findings not yet reported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_webgpu import options, resources, usage
from pytest_webgpu.options import Settings
from pytest_webgpu.preprocess import preprocessed

if TYPE_CHECKING:
    from pytest_webgpu.conformance.check import Report
    from pytest_webgpu.gate.fingerprint import Fingerprint
    from pytest_webgpu.gating import Gate
    from pytest_webgpu.gpu.adapters import Adapter
    from pytest_webgpu.gpu.job import DeviceInfo, NoAdapter, Runner
    from pytest_webgpu.kernels.library import Library
    from pytest_webgpu.kernels.source import KernelSource
    from pytest_webgpu.ops.contract import Contract
    from pytest_webgpu.performance.timeline import TraceFile


@dataclass(frozen=True)
class Target:
    """Where to run: one implementation and one backend, as they were asked for. The value of `webgpu_backend`."""

    implementation: str
    backend: str
    id: str


class State:
    """Made when something first needs WebGPU; nothing is probed before that."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config, self.settings = config, settings
        self._adapters: dict[Target, Adapter | NoAdapter] = {}
        self._records: list[dict[str, Any]] = []

    @cached_property
    def targets(self) -> list[Target]:
        """Every implementation and backend that was asked for, `all` spelled out as those that are there."""
        from pytest_webgpu.gpu import adapters
        from pytest_webgpu.gpu.job import NoAdapter

        asked = self.settings["implementation"]
        implementations = adapters.installed() if "all" in asked else asked
        pairs: dict[tuple[str, str], None] = {}
        for implementation in implementations:
            for backend in self.settings["backend"]:
                if backend == "all":
                    try:
                        with self._seen():
                            found = [a.info.backend for a in adapters.list_adapters(implementation)]
                    except NoAdapter:
                        found = ["auto"]  # so that whoever asks for the adapter is told why there is none
                    pairs.update({(implementation, b): None for b in found})
                else:
                    pairs[implementation, backend] = None
        several = len({i for i, _ in pairs}) > 1
        return [Target(i, b, f"{i}-{b}" if several else b) for i, b in pairs]

    def adapter(self, target: Target) -> Adapter:
        """The adapter of a target. Raises gpu.adapters.NoAdapter, whose message lists what there is."""
        from pytest_webgpu.gpu import adapters
        from pytest_webgpu.gpu.job import NoAdapter

        if target not in self._adapters:
            asked = (target.backend, target.implementation, self.settings["adapter"])
            with self._seen():
                try:
                    self._adapters[target] = adapters.choose(*asked)
                except NoAdapter as error:  # a browser that does not start takes its time over that: once is enough
                    self._adapters[target] = error
        found = self._adapters[target]
        if isinstance(found, NoAdapter):
            raise found
        return found

    def _seen(self) -> AbstractContextManager[None]:
        """What is printed inside reaches the terminal: the URL that somebody is to point a browser at."""
        manager = self.config.pluginmanager.getplugin("capturemanager")
        seen: AbstractContextManager[None] = manager.global_and_fixture_disabled() if manager else nullcontext()
        return seen

    def require_targets(self) -> None:
        """Raises pytest.UsageError when something that was asked for by name is not there.

        Of `all` implementations one may be here and of no use, an old browser say: its tests are skipped, and say why.
        """
        from pytest_webgpu.gpu.job import NoAdapter

        told = []
        for target in self.targets:
            try:
                self.adapter(target)
            except NoAdapter as error:
                told.append(str(error))
        if told and ("all" not in self.settings["implementation"] or len(told) == len(self.targets)):
            raise pytest.UsageError("\n".join(dict.fromkeys(told)))
        if not self.targets:
            raise pytest.UsageError("no WebGPU adapter of any backend was found; see pytest --webgpu-list")

    def require_kernels(self) -> None:
        """Raises pytest.UsageError when a file of `--webgpu-kernel` cannot be read as a kernel."""
        from pytest_webgpu.kernels.source import KernelError

        try:
            self.kernels  # noqa: B018
        except KernelError as error:
            raise pytest.UsageError(f"--webgpu-kernel: {error}") from None

    def descriptor(self) -> dict[str, Any]:
        """What `webgpu_device_descriptor` gives unless a user overrides it: limits (None: the defaults), without."""
        return {"limits": usage.limits(self.settings), "without": set(self.settings["without"])}

    def open(self, adapter: Adapter, descriptor: dict[str, Any]) -> Runner:
        """A runner in a process of its own, probed: what the probes found is recorded."""
        from pytest_webgpu.gpu import open_runner
        from pytest_webgpu.gpu.probe import probe

        runner = open_runner(adapter, limits=descriptor["limits"], without=descriptor["without"])
        info = runner.info
        self.record(
            "device", adapter=info.adapter, backend=info.backend, implementation=info.implementation,
            version=info.version, driver=info.driver, software=info.software, findings=probe(runner),
            machine=_fingerprint(info).as_dict(),
        )  # fmt: skip
        return runner

    @cached_property
    def kernels(self) -> Library:
        """The shipped kernels, with those of `--webgpu-kernel` before them. Raises KernelError."""
        from pytest_webgpu.kernels.library import Library

        folder = self.config.invocation_params.dir
        return Library(resources.folder("wgsl"), [self.read(folder / name) for name in self.settings["kernel"]])

    def read(self, path: Path, **header: Any) -> KernelSource:
        """The kernel in a file, with the header keys of options and of the call over its own. Raises KernelError."""
        from pytest_webgpu.kernels.source import read_source

        if self.settings["preprocess"]:
            kept = self.config.rootpath / ".webgpu" / "preprocessed"
            path = preprocessed(path, self.settings["preprocess"], kept)
        return read_source(path, {**options.header(self.settings), **header} or None)

    @cached_property
    def _ops_registered(self) -> bool:
        self.config.hook.pytest_webgpu_register_ops(config=self.config)
        return True

    def trace(self, runner: Runner, model: str, dtype: str, library: Library) -> None:
        """Adds a timeline of one token to the file of `--webgpu-trace`, and records the memory that it took."""
        from pytest_webgpu.performance.timeline import token_timeline

        self.progress(f"a timeline of one token of {model} {dtype}")
        drawn = token_timeline(runner, model, dtype, ",".join(self.settings["fusions"]), library)
        self._trace.add(drawn)
        self.record("timeline", title=drawn.title, file=self.settings["trace"], dispatches=len(drawn.labels),
                    peak_bytes=drawn.peak_bytes, driver_bytes=drawn.driver_bytes)  # fmt: skip

    @cached_property
    def _trace(self) -> TraceFile:
        from pytest_webgpu.performance.timeline import TraceFile

        return TraceFile(self.config.invocation_params.dir / self.settings["trace"])

    def check(self, kernel: KernelSource, runner: Runner, op: str | None = None) -> Report:
        """Holds the kernel to its op (or to `op`) and records what came of it. Raises ConformanceFailure."""
        from pytest_webgpu.conformance.failure import ConformanceFailure
        from pytest_webgpu.kernels.errors import Refused

        self._check_asked(kernel, op)
        of, place = _fingerprint(runner.info), place_of(kernel) or (None, 1)
        found = {"op": op or kernel.header.op, "kernel": kernel.name, "fingerprint": of.as_dict(), "file": place[0],
                 "implementation": runner.info.implementation, "backend": runner.info.backend}  # fmt: skip
        report, refused, wrong, line = None, None, False, place[1]
        try:
            report = self.hold(kernel, runner, op, self.config.rootpath / ".webgpu" / "failures")
        except Refused as error:
            refused, line = f"line {error.line}: {error.remedy}", error.line
            raise
        except ConformanceFailure as failure:
            wrong = True
            if hints := [*self._lints(kernel, runner)]:
                told = "\n  ".join([f"{failure}\n  what the text alone shows, and may be the cause:", *hints])
                raise ConformanceFailure(told, failure.case, failure.cause) from failure.__cause__
            raise
        finally:
            if report is None:
                self.record("conformance", **found, passed=False, cases=0, headroom=None, notes=[], refused=refused,
                            wrong=wrong, line=line)  # fmt: skip
        notes = [*self._lints(kernel, runner), *report.notes]
        if kernel.header.requires:
            notes.append(f"checked where {' and '.join(e.text for e in kernel.header.requires)}, as it says, alone")
        self.record("conformance", **found, passed=True, cases=report.cases, headroom=report.headroom or None,
                    notes=notes, refused=None, wrong=False, line=line)  # fmt: skip
        self.gate.headroom(of, report, place_of(kernel))
        return report

    @staticmethod
    def _lints(kernel: KernelSource, runner: Runner) -> Iterator[str]:
        """What other compilers and adapters may take otherwise, though this one did not mind."""
        from pytest_webgpu.kernels.lints import lint

        file = kernel.path.name if kernel.path else kernel.name
        for found in lint(kernel, runner.info.limits):
            yield f"{file}:{found.line}: {found.message} ({found.rule})"

    def hold(
        self, kernel: KernelSource, runner: Runner, op: str | None = None, failures: Path | None = None,
        at: Mapping[str, int] | None = None,
    ) -> Report:  # fmt: skip
        """The same without a record. A text that a compiler refuses is a KernelError at its line.

        `failures`: a folder in which a failure leaves what reproduces it without this project. `at`: one case alone,
        of normal data at these dims, which may be large.
        """
        from pytest_webgpu.conformance.check import check
        from pytest_webgpu.conformance.inputs import Case
        from pytest_webgpu.conformance.settings import Settings as HowMuch
        from pytest_webgpu.gpu.job import CompileError
        from pytest_webgpu.kernels.errors import Refused

        replay = self.settings["replay"]
        case = Case(at) if at is not None else Case.from_json(replay) if replay is not None else None
        how_much = HowMuch(reference=self.settings["reference"], replay=case, failures=failures,
                           deadline=HowMuch.deadline if at is None else 120,
                           options=tuple(self.settings.given("implementation", "backend", "adapter", "without")))
        try:
            return check(self.contract(kernel, op), kernel, runner, settings=how_much)
        except CompileError as error:
            line, who = error.details.get("line") or 1, runner.info.implementation
            told = kernel.error(line, f"{who} does not compile it", error.message.strip())
            raise Refused(told.path, told.line, told.message, told.remedy) from None

    def contract(self, kernel: KernelSource, op: str | None = None) -> Contract:
        """What the kernel claims to be, or `op` where that is given. Raises KernelError, which points at the claim."""
        from pytest_webgpu.ops import contract

        assert self._ops_registered
        try:
            return contract.load(op or kernel.header.op)
        except contract.ContractError as error:
            if op or self.settings["op"]:  # not what the file says
                asked = f"check({op!r})" if op else f"--webgpu-op={self.settings['op']}"
                raise contract.ContractError(f"{asked}: {error}") from None
            raise kernel.header_error("op", str(error), "name one of these, or your own: module:function") from None

    def require_op(self) -> None:
        """Raises pytest.UsageError where `--webgpu-op` names none."""
        from pytest_webgpu.ops import contract

        assert self._ops_registered
        try:
            contract.load(self.settings["op"])
        except contract.ContractError as error:
            raise pytest.UsageError(f"--webgpu-op={self.settings['op']}: {error}") from None

    def _check_asked(self, kernel: KernelSource, op: str | None) -> None:
        """What is wrong with the question and not with the kernel, before the kernel is held to anything."""
        from pytest_webgpu.conformance.inputs import Case, misfit

        replay = self.settings["replay"]
        if not (op or replay or self.settings["op"]):
            return
        contract = self.contract(kernel, op)
        if replay and (problem := misfit(Case.from_json(replay), contract, kernel)):
            pytest.fail(f"--webgpu-replay: {problem}", pytrace=False)

    def progress(self, text: str) -> None:
        """Tells whoever watches what takes long."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        if terminal is not None and capture is not None and self.config.get_verbosity() >= 0:
            with capture.global_and_fixture_disabled():
                terminal.ensure_newline()
                terminal.write_line(f"  {text} ...")

    def record(self, kind: str, **data: Any) -> None:
        """Keeps a finding (numbers, strings, lists and dicts) until the report of the test that runs takes it along."""
        plain = json.loads(json.dumps(data, default=_plain))  # so that it crosses from a worker of pytest-xdist
        self._records.append({"kind": kind, "data": plain})

    @cached_property
    def gate(self) -> Gate:
        """Judges what tests measure and count, while they run."""
        from pytest_webgpu.gating import Gate

        return Gate(self.config, self.settings, self.record, self.progress)

    def measured(
        self, info: DeviceInfo, key: str, samples: Sequence[float], value: float, group: str, *, dtype: str = "",
        model: str = "", more: Mapping[str, Any] | None = None, kernel: KernelSource | None = None,
    ) -> None:  # fmt: skip
        """A figure for the baselines: `samples` in seconds, one a round, and `value`, which is judged.

        Where this run is gated the test fails, at its end, by what the gate says. `kernel`: whose time it is.
        """
        from pytest_webgpu.gate.judge import Figure

        of = _fingerprint(info, dtype, model)
        one = Figure(of, key, tuple(samples), value, group, dict(more or {}))
        one = self.gate.measured(one, place_of(kernel))
        self.record("measurement", fingerprint=of.as_dict(), key=key, samples=one.samples, value=one.value,
                    group=group, more=one.more)  # fmt: skip

    def counted(
        self, info: DeviceInfo, key: str, total: int, parts: Mapping[str, int], *, dtype: str = "", model: str = ""
    ) -> None:
        """An exact count for the baselines, and what it is made of: one more than was recorded fails a gated test."""
        from pytest_webgpu.gate.rules import Count

        of = _fingerprint(info, dtype, model)
        self.record("count", fingerprint=of.as_dict(), key=key, total=total, parts=dict(parts))
        self.gate.counted(of, key, Count(total, dict(parts)))

    def take_records(self) -> list[dict[str, Any]]:
        taken, self._records = self._records, []
        return taken


def place_of(kernel: KernelSource | None) -> tuple[str, int] | None:
    """Where to point in a kernel's file: its entry point. None for a kernel from no file."""
    if kernel is None or kernel.path is None:
        return None
    return str(kernel.path), kernel.entries[0].line if kernel.entries else 1


def _fingerprint(info: DeviceInfo, dtype: str = "", model: str = "") -> Fingerprint:
    from pytest_webgpu.gate.fingerprint import fingerprint

    return fingerprint(info, dtype=dtype, model=model)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
