"""The selected tests that measure, run again in a fresh interpreter, with what they measured read from its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.gate.judge import Figure, Process
from pytest_webgpu.options import TABLE, Settings

MEASURES = frozenset({"webgpu_adapter", "benchmark"})  # the fixtures that whatever measures takes
OWN = ("gate", "update-baselines", "report", "gate-processes", "list", "gate-self-test")  # what a fresh process is for
FORGOTTEN = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")


def measures(item: pytest.Item) -> bool:
    """Whether a test is run again in fresh processes: it takes pytest-benchmark's fixture, and one of ours."""
    return set(getattr(item, "fixturenames", ())) >= MEASURES


def measure(
    config: pytest.Config, settings: Settings, items: Iterable[pytest.Item], times: int,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Process]:  # fmt: skip
    """What each of `times` processes measures, one after another, with this run's settings and nothing recorded."""
    options, tests = [*_arguments(config, settings)], [f"{i.path}::{i.nodeid.partition('::')[2]}" for i in items]
    found = []
    for number in range(times):
        progress(f"gate: fresh process {number + 1} of {times}")
        with tempfile.TemporaryDirectory(prefix="pytest-webgpu-") as folder:
            found.append(_run(config, options, tests, Path(folder)))
    return found


def _arguments(config: pytest.Config, settings: Settings) -> Iterator[str]:
    """The options of this run that say what is measured and how; not those that say what becomes of it."""
    yield from ("-p", "no:cacheprovider", "-o", "addopts=", f"--rootdir={config.rootpath}", "--webgpu-gate=off")
    if config.inipath is not None:
        yield f"--config-file={config.inipath}"
    for name in config.option.plugins:
        yield from ("-p", name)
    for override in config.option.override_ini or ():
        yield from ("-o", override)
    if config.option.markexpr:
        yield from ("-m", config.option.markexpr)
    for s in TABLE:
        if settings.source(s.name) == "option" and s.name not in OWN:
            given = config.getoption(s.key)
            for text in given if isinstance(given, list) else [given]:
                yield s.option if s.kind == "flag" else f"{s.option}={text}"


def _run(config: pytest.Config, options: Iterable[str], tests: Iterable[str], folder: Path) -> Process:
    """One process. Its exit code is not 0 where a test failed: what it measured before is no session's."""
    report, listed = folder / "report.json", folder / "tests"
    listed.write_text("\n".join(tests), encoding="utf-8")  # they may be more than a command line holds
    environment = {name: value for name, value in os.environ.items() if name not in FORGOTTEN}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--webgpu-report={report}", f"@{listed}"], env=environment,
        cwd=config.invocation_params.dir, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-8:]
        return Process(failure=f"a fresh process ended with exit code {done.returncode}: " + "\n  ".join(said))
    return read(json.loads(report.read_text(encoding="utf-8"))["findings"])


def read(findings: Iterable[dict[str, object]]) -> Process:
    """The figures among a report's findings."""
    figures, canary = {}, None
    for found in findings:
        data: dict[str, object] = dict(found)
        if found["kind"] == "canary":
            canary = float(str(data["seconds"]))
        elif found["kind"] == "measurement":
            one = figure(data)
            figures[one.of, one.key] = one
    return Process(figures, canary)


def figure(data: dict[str, object]) -> Figure:
    """A finding of kind "measurement"."""
    of, samples, more = data["fingerprint"], data["samples"], data["more"]
    assert isinstance(of, dict)
    assert isinstance(samples, list)
    assert isinstance(more, dict)
    return Figure(Fingerprint.from_dict(of), str(data["key"]), tuple(map(float, samples)), float(str(data["value"])),
                  str(data["group"]), more)  # fmt: skip
