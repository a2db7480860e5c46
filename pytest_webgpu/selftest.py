"""`--webgpu-gate-self-test`: the gate against itself on this machine, and what it finds of slowdowns that are real.

`python -m pytest_webgpu.selftest REPORT.json ...`: the same of a suite of one's own, run again and again with nothing
changed and a `--webgpu-report` each: how often would the stored-baseline rule have cried wolf?
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_webgpu import fresh, options
from pytest_webgpu.gate import judge, rehearsal, selftest
from pytest_webgpu.gpu.adapters import describe
from pytest_webgpu.gpu.job import NoAdapter, Runner
from pytest_webgpu.ops.launch import Unfit, launch
from pytest_webgpu.performance.prepare import Candidate
from pytest_webgpu.state import State

if TYPE_CHECKING:
    from pytest_webgpu.gpu.adapters import Adapter

SUBSET = {
    "mul": {"n": 1},
    "rms_norm": {"rows": 1, "cols": 896},
    "linear.gemv": {"rows": 1, "k": 896, "n": 128},
}
"""Kernels by file, and what they are timed at: a launch that does next to nothing, then two of Qwen2.5-0.5B's."""


def sessions(settings: options.Settings) -> int:
    """How many sessions, and trials of the paired rule. Raises pytest.UsageError for too few."""
    return options.whole(settings["gate-sessions"], "--webgpu-gate-sessions", rehearsal.LEAST_SESSIONS)


def run(config: pytest.Config, settings: options.Settings) -> Iterator[str]:
    """Measures on every target that was asked for, and says line by line what came of it."""
    count, state = sessions(settings), State(config, settings)
    for target in state.targets:
        try:
            adapter = state.adapter(target)
        except NoAdapter as error:
            raise pytest.UsageError(str(error)) from None
        yield describe(adapter)
        yield from _on(state, adapter, count)


def _on(state: State, adapter: Adapter, count: int) -> Iterator[str]:
    from pytest_webgpu.gpu import open_runner

    began, descriptor = time.monotonic(), state.descriptor()

    @contextmanager
    def opened() -> Iterator[Runner]:
        runner = open_runner(adapter, limits=descriptor["limits"], without=descriptor["without"])
        try:
            yield runner
        finally:
            runner.close()

    def progress(text: str) -> None:
        print(f"  {text}, {time.monotonic() - began:.0f} s", flush=True)

    with opened() as runner:
        chosen = [_candidate(state, runner, name, dims) for name, dims in SUBSET.items()]
        yield f"{count} sessions of {', '.join(c.key for c in chosen)}"
        for one in chosen:
            progress(f"paired rule, {count} trials of {one.key}")
            yield from selftest.told(selftest.self_test(runner, one, trials=count))
    measured = rehearsal.measure_sessions(opened, chosen, count, options.PROCESSES, progress)
    yield from rehearsal.told(rehearsal.rehearse(measured, adapter.info.software))
    yield f"{time.monotonic() - began:.0f} s in all"


def _candidate(state: State, runner: Runner, name: str, dims: dict[str, int]) -> Candidate:
    """The first variant of the file that the device can run at these dims."""
    for kernel in state.kernels.all():
        if kernel.path is not None and kernel.path.stem == name and kernel.features <= set(runner.info.features):
            contract = state.contract(kernel)
            try:
                launch(contract, kernel, dims, {})
            except Unfit:
                continue
            return Candidate(contract, kernel, dims)
    raise pytest.UsageError(f"no kernel {name} runs at {dims} on {runner.info.adapter}")


def sessions_of(reports: Sequence[Path]) -> tuple[list[rehearsal.Session], bool]:
    """A session a report, in their order, of what all of them measured; and whether that was on a software adapter.
    Raises ValueError for what is no report."""
    processes = []
    for path in reports:
        try:
            processes.append(fresh.read(json.loads(path.read_text(encoding="utf-8"))["findings"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no report of --webgpu-report=....json: {error}") from error
        if processes[-1].canary is None:
            raise ValueError(f"{path} has no measurement in it")
    figures = sorted(processes[0].figures.values(), key=lambda f: judge.order(f.group)) if processes else []
    shared = [f for f in figures if all((f.of, f.key) in p.figures for p in processes)]
    if len({judge.name_of(f.of, f.key) for f in shared}) != len(shared):
        raise ValueError("the reports are of several adapters or implementations: give those of one")
    found = [
        rehearsal.Session(
            {judge.name_of(f.of, f.key).strip(): {0.0: p.figures[f.of, f.key].value} for f in shared}, p.canary or 0.0
        )
        for p in processes
    ]
    return found, any(f.of.software for f in shared)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        found, software = sessions_of([Path(a) for a in (sys.argv[1:] if arguments is None else arguments)])
        for line in rehearsal.told(rehearsal.rehearse(found, software)):
            print(line)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
