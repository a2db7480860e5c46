"""A run's figures, each judged as soon as it is there: by fresh processes, and a second session where it is over.

A session's value is the least of several fresh processes, of which the run itself is one. The others measure
everything that was selected when the first figure comes that has a baseline, so that each figure is judged beside all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_webgpu.gate import rules
from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.gate.past import Past
from pytest_webgpu.gate.rules import Judgement, Observation
from pytest_webgpu.performance.canary import KEY as CANARY
from pytest_webgpu.performance.stats import Verdict

GROUPS = ("model", "dispatch")  # whose figures gate before others': rules.GATED of them in all
Id = tuple[Fingerprint, str]


@dataclass(frozen=True)
class Figure:
    """What one process measured of one benchmark: `samples` in seconds, one a round; `value` is what is judged."""

    of: Fingerprint
    key: str
    samples: tuple[float, ...]
    value: float
    group: str
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Process:
    """Another process's figures and its canary, in seconds; or why it has none."""

    figures: Mapping[Id, Figure] = field(default_factory=dict)
    canary: float | None = None
    failure: str = ""


Measure = Callable[[int, Path | None], list[Process]]
"""Runs what was selected (or what of it is in one file) again in so many fresh processes, one after another."""


class Judge:
    """`measure_again` None: this process is the whole session, and no second one decides."""

    def __init__(self, past: Past, measure_again: Measure | None, processes: int, canary: float, *,
                 always: bool = False, decides: bool = True) -> None:  # fmt: skip
        """`always`: the others measure also where there is no baseline, since what they measure becomes one.
        `decides`: what is over its limit is measured in a second session at once."""
        self.past, self.processes, self._again, self._always = past, processes, measure_again, always
        self._decides = decides and measure_again is not None
        self._canaries = [canary]
        self._own: dict[Id, Figure] = {}
        self._others: list[Process] | None = None
        self._second: dict[Path, list[Process]] = {}

    def session_figure(self, figure: Figure) -> Figure:
        """The session's figure: that of the process with the least value. `more` keeps the value of each process."""
        self._own[figure.of, figure.key] = figure
        if self._others is None and (self._always or self._has_baseline(figure)):
            self._others = self._again(self.processes - 1, None) if self._again and self.processes > 1 else []
            self._canaries += [p.canary for p in self._others if p.canary is not None]
        found = self._all(figure.of, figure.key)
        least = min(found, key=lambda f: f.value)
        more = {**figure.more, "values": [f.value for f in found]} if len(found) > 1 else figure.more
        return dataclasses.replace(least, more=more)

    def missing(self, figure: Figure) -> str:
        """Why the session's figure is not the least of all its processes; nothing where it is."""
        failures = [p.failure or "it gave no such figure" for p in self._others or ()
                    if (figure.of, figure.key) not in p.figures]  # fmt: skip
        return f"{len(failures)} of {self.processes} processes did not measure it: {failures[0]}" if failures else ""

    @property
    def canary(self) -> float:
        return min(self._canaries)

    def judge(self, figure: Figure, where: Path | None = None) -> Judgement:
        """The stored-baseline rule for a figure that `session_figure` has seen; `where` is the file of its test.

        Raises store.BaselineError for a baseline that cannot be read, ValueError for a value that is no time.
        """
        if told := self.missing(figure):
            return Judgement(figure.key, Verdict.CANNOT_TELL, told)
        judgement = self._judge(figure, None)
        if judgement.remeasure and self._decides and self._again:
            place = where or Path()
            if place not in self._second:
                self._second[place] = self._again(self.processes, where)
            values = [p.figures[figure.of, figure.key].value for p in self._second[place]
                      if (figure.of, figure.key) in p.figures]  # fmt: skip
            if len(values) < self.processes:
                failures = [p.failure for p in self._second[place] if p.failure] or ["it gave no such figure"]
                reason = f"over its limit once, and a second session was not measured: {failures[0]}"
                return dataclasses.replace(judgement, reason=reason)
            judgement = self._judge(figure, min(values))
        if judgement.verdict is Verdict.NO_BASELINE:
            others = self.past.fewer_processes(figure.of, figure.key, self.processes)
            if others:
                reason = f"{judgement.reason} (and {others} by fewer than {self.processes} processes do not count)"
                return dataclasses.replace(judgement, reason=reason)
        return judgement

    def _judge(self, figure: Figure, second: float | None) -> Judgement:
        seen = []
        for of, key in self._ids(figure.of):
            mine = (of, key) == (figure.of, figure.key)
            baseline = self.past.values(of, key, self.processes)
            value = min(f.value for f in self._all(of, key))
            seen.append(Observation(name_of(of, key), value, baseline, second if mine else None))
        canary = Observation(CANARY, self.canary, self.past.values(figure.of, CANARY, self.processes))
        name = name_of(figure.of, figure.key)
        found = next(j for j in rules.judge(seen, canary, figure.of.software) if j.key == name)
        return dataclasses.replace(found, key=figure.key)

    def _ids(self, of: Fingerprint) -> Sequence[Id]:
        """Every figure that is known of the same device, those that gate first before others."""
        known = dict(self._own)
        for process in self._others or ():
            known.update({id_: f for id_, f in process.figures.items() if id_ not in known})
        same = [id_ for id_ in known if _device(id_[0]) == _device(of)]
        return sorted(same, key=lambda id_: order(known[id_].group))

    def _all(self, of: Fingerprint, key: str) -> list[Figure]:
        own = [self._own[of, key]] if (of, key) in self._own else []
        return own + [p.figures[of, key] for p in self._others or () if (of, key) in p.figures]

    def _has_baseline(self, figure: Figure) -> bool:
        return len(self.past.values(figure.of, figure.key, self.processes)) >= rules.LEAST_SITTINGS


def order(group: str) -> int:
    """By this figures are sorted: those whose group gates first come before others."""
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


def _device(of: Fingerprint) -> Fingerprint:
    return dataclasses.replace(of, dtype="", model="")


def name_of(of: Fingerprint, key: str) -> str:
    """What a figure is called among those of one device."""
    return f"{key} {of.model} {of.dtype}"
