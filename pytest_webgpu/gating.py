"""The gate in a pytest run: what a test measured or counted is judged while the test runs, and fails that test."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_webgpu import fresh, options
from pytest_webgpu.gate import rules
from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.gate.judge import Figure, Judge
from pytest_webgpu.gate.past import Past
from pytest_webgpu.gate.rules import Count, Judgement
from pytest_webgpu.gate.store import BaselineError
from pytest_webgpu.options import Settings
from pytest_webgpu.performance.canary import canary_seconds
from pytest_webgpu.performance.stats import MeasurementError, Verdict

if TYPE_CHECKING:
    from pytest_webgpu.conformance.settings import Report

Place = tuple[str, int] | None
"""A .wgsl file and a line of it, from 1."""
FAILING = {
    "fail": frozenset({Verdict.WORSE}),
    "strict": frozenset({Verdict.WORSE, Verdict.CANNOT_TELL, Verdict.NO_BASELINE}),
}
NAMES = {Verdict.WORSE: "REGRESSED", Verdict.CANNOT_TELL: "CANNOT TELL", Verdict.NO_BASELINE: "NO BASELINE"}
ACCEPT = "to accept it, delete its baselines and record new ones: --webgpu-update-baselines"


def folder(config: pytest.Config, settings: Settings) -> Path:
    """Where what was measured is kept."""
    return Path(settings["baselines-dir"] or config.rootpath / "baselines") / "measured"


class Gate:
    """`record` keeps a finding of the test that runs; `progress` tells what takes long."""

    def __init__(self, config: pytest.Config, settings: Settings, record: Callable[..., None],
                 progress: Callable[[str], None]) -> None:  # fmt: skip
        self._config, self._settings, self._record, self._progress = config, settings, record, progress
        self._on = settings["gate"] != "off"
        self._item: pytest.Item | None = None
        self._failures: list[str] = []
        self._past = Past(folder(config, settings), settings["accept-near-miss"])

    @contextmanager
    def test(self, item: pytest.Item) -> Iterator[None]:
        """While a test runs. Fails it at its end for what the setting `gate` says."""
        self._item, self._failures = item, []
        yield
        if self._failures:
            pytest.fail("\n".join(self._failures), pytrace=False)

    @cached_property
    def _judge(self) -> Judge:
        canary = canary_seconds()
        self._record("canary", seconds=canary)
        alone = hasattr(self._config, "workerinput")  # beside other workers nothing can be measured
        gate, count = self._settings["gate"], 1 if alone else options.processes(self._settings)
        return Judge(self._past, self._again, count, canary, always=self._settings["update-baselines"],
                     decides=self._on and (gate != "warn" or self._settings.named("gate")))  # fmt: skip

    def _again(self, times: int, where: Path | None) -> list[Any]:
        assert self._item is not None
        items = [i for i in self._item.session.items if fresh.measures(i) and where in (None, i.path)]
        if self._item not in items:
            items.append(self._item)
        return fresh.measure(self._config, self._settings, items, times, self._progress)

    def measured(self, figure: Figure, place: Place = None) -> Figure:
        """The session's figure, judged. Raises MeasurementError for what is no time."""
        for seconds in (*figure.samples, figure.value):
            if not (math.isfinite(seconds) and seconds > 0):
                raise MeasurementError(f"{figure.key} took {seconds} s: not measured, or the clock went backwards")
        if not self._on and not self._settings["update-baselines"]:
            _ = self._judge  # whoever started this process wants its canary
            return figure
        assert self._item is not None
        path = self._item.path
        judged: Judgement | None = None
        try:
            figure = self._judge.session_figure(figure)
            judged = self._judge.judge(figure, path) if self._on else None
            if self._settings["update-baselines"] and (told := self._judge.missing(figure)):
                self._failures.append(f"NOT RECORDED {figure.key}: {told}")
        except BaselineError as error:
            self._broken(error)
        if judged is not None:
            self._take(figure.of, judged, figure.group, place)
        return figure

    def counted(self, of: Fingerprint, key: str, count: Count, place: Place = None) -> None:
        """An exact count, judged."""

        def rule() -> Judgement:
            then, near = self._past.count(of, key)
            judged = rules.judge_count(key, count, then)
            return dataclasses.replace(judged, reason=f"{judged.reason} (recorded where {near})") if near else judged

        self._exact(of, rule, "counts", place)

    def headroom(self, of: Fingerprint, report: Report, place: Place = None) -> None:
        """How much of its error bounds a kernel used, judged."""
        key = headroom_key(report.kernel, report.cases)
        self._exact(of, lambda: rules.judge_ratio(key, report.headroom, self._past.ratio(of, key)), "accuracy", place)

    def _exact(self, of: Fingerprint, rule: Callable[[], Judgement], group: str, place: Place) -> None:
        if not self._on:
            return
        try:
            self._take(of, rule(), group, place)
        except BaselineError as error:
            self._broken(error)

    def compared(self, text: str, verdict: Verdict) -> None:
        """A paired comparison, judged already: the test fails by it as by a baseline."""
        assert self._item is not None
        self._item.user_properties.append(("webgpu paired", text))
        self._fail(verdict, text)

    def _broken(self, error: BaselineError) -> None:
        self._record("baseline-error", text=str(error))
        if self._settings["gate"] in FAILING:
            self._failures.append(f"BaselineError: {error}")

    def _take(self, of: Fingerprint, judged: Judgement, group: str, place: Place) -> None:
        assert self._item is not None
        verdict = judged.verdict.value if judged.verdict else "listed"
        file, line = place or (None, None)
        self._record(
            "judgement", key=judged.key, fingerprint=of.as_dict(), verdict=verdict, reason=judged.reason, group=group,
            ratio=_finite(judged.ratio), limit=_finite(judged.limit), sittings=judged.sittings, file=file, line=line,
        )  # fmt: skip
        text = tell({"ratio": _finite(judged.ratio), "reason": judged.reason, "key": judged.key, **_model(of)})
        self._item.user_properties.append((f"webgpu {judged.key}", f"{verdict}: {text.partition(': ')[2]}"))
        if judged.verdict is not None:
            self._fail(judged.verdict, text + (f"\n  {ACCEPT}" if judged.verdict is Verdict.WORSE else ""))

    def _fail(self, verdict: Verdict, text: str) -> None:
        if verdict in FAILING.get(self._settings["gate"], ()):
            self._failures.append(f"{NAMES[verdict]} {text}")


def headroom_key(kernel: str, cases: int) -> str:
    """What a kernel's headroom is stored under: of so many cases, since more find more."""
    return f"error/bound {kernel}, {cases} cases"


def strict(report: pytest.TestReport) -> None:
    """Nothing measured is never a pass: under `strict` what could not be measured has failed."""
    if report.skipped and isinstance(report.longrepr, tuple) and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith("NOT MEASURED"):
            report.outcome, report.longrepr = "failed", reason


def tell(judgement: Mapping[str, Any]) -> str:
    """A judgement in a line: what, how much, why."""
    of = " ".join(filter(None, (judgement.get("model"), judgement.get("dtype"))))
    ratio = judgement["ratio"]
    times = "" if ratio is None else f"{ratio:.3f} of its baseline, "
    return f"{judgement['key']}{f' ({of})' if of else ''}: {times}{judgement['reason']}"


def _model(of: Fingerprint) -> dict[str, str]:
    return {"model": of.model, "dtype": of.dtype}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
