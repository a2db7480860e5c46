"""What the tests of one run found out, gathered from their reports: the one thing that every report is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_webgpu import __version__

MESSAGE = 4000  # characters kept of what a failed test says


@dataclass(frozen=True)
class Record:
    """One finding of one test: plain JSON data.

    `kind` is one of: device, conformance, lacking, dispatch, kernel, generation, agreement, race, mutants, measurement,
    count, canary, judgement, baseline-error.
    """

    nodeid: str
    kind: str
    data: dict[str, Any]


@dataclass(eq=False)  # hashable: pytest keeps plugins in sets
class Results:
    """Outcomes and findings of the tests that need WebGPU. A pytest plugin, so that it sees every report."""

    records: list[Record] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)  # what each failed test said
    notes: list[str] = field(default_factory=list)  # on baselines, for the end of the summary

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = getattr(report, "webgpu", None)  # put there by the plugin, in whichever process ran the test
        if found is not None:
            self.add(report, found)

    def add(self, report: pytest.TestReport, found: Iterable[dict[str, Any]]) -> None:
        """Takes in one phase of a test and the findings that came with it."""
        self.records += [Record(report.nodeid, f["kind"], f["data"]) for f in found]
        if report.outcome == "skipped":
            self.outcomes["xfailed" if hasattr(report, "wasxfail") else "skipped"] += 1
            if isinstance(report.longrepr, tuple):
                self.reasons[report.longrepr[2].removeprefix("Skipped: ").splitlines()[0]] += 1
        elif report.outcome == "failed":
            self.outcomes["failed"] += 1
            self.failed.append(report.nodeid)
            crash = getattr(report.longrepr, "reprcrash", None)
            said = crash.message if crash is not None else str(report.longrepr or "")
            self.messages[report.nodeid] = said.strip()[:MESSAGE]
        elif report.when == "call":
            self.outcomes["passed"] += 1

    def first_line(self, nodeid: str) -> str:
        return next(iter(self.messages.get(nodeid, "").splitlines()), "")

    @property
    def nothing(self) -> bool:
        """Tests that need WebGPU were selected, and not one of them could be run."""
        return self.outcomes.total() > 0 and self.outcomes.total() == self.outcomes["skipped"]

    @property
    def verdict(self) -> str:
        """FAILED, NOTHING CHECKED or PASSED."""
        return "FAILED" if self.outcomes["failed"] else "NOTHING CHECKED" if self.nothing else "PASSED"

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The findings of a kind, each once, in the order in which they came."""
        kept: list[dict[str, Any]] = []
        for record in self.records:
            if record.kind == kind and record.data not in kept:
                kept.append(record.data)
        return kept

    def as_data(self) -> dict[str, Any]:
        """Everything, for reports that programs read. `schema` changes when a field's meaning does."""
        return {
            "schema": 1,
            "pytest_webgpu": __version__,
            "verdict": self.verdict,
            "outcomes": dict(self.outcomes),
            "skipped": dict(self.reasons),
            "failed": self.failed,
            "messages": self.messages,
            "baselines": self.notes,
            "findings": [{"test": r.nodeid, "kind": r.kind, **r.data} for r in self.records],
        }
