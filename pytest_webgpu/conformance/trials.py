"""Cases by which copies of one kernel are told from it: cheap and telling ones first, which are learned on the way."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_webgpu.conformance.bounds import Bounded
from pytest_webgpu.conformance.check import Check
from pytest_webgpu.conformance.execute import Planned, Variant, plan
from pytest_webgpu.conformance.inputs import Case
from pytest_webgpu.conformance.judge import judge
from pytest_webgpu.conformance.sizes import invocations
from pytest_webgpu.gpu.job import CompileError, DeadlineExceeded, GpuError, LimitError, ValidationError

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource

VALUES: tuple[Variant, ...] = ("base", "high")
ORDER: tuple[Variant, ...] = ("base", "low", "again", "reversed")
ORDERED = 8  # cases that run in another order as well: the cheapest
NARROW = 3  # workgroups in the first dimension of a folded grid: a few rows then show what takes 65,536
JOB = 3e-3  # seconds of a job beside its kernels
SHARED = 8  # cases that each tunable has besides its own
PATIENCE, LEAST = 20, 1.5  # a copy hangs when it takes so many times as long as the kernel, and so many seconds
SLOW_TO_COMPILE = 4  # the same of its compilation, which varies less
UNSEEN = 10.0  # seconds that may take before one was seen: of the kernel itself the driver may have kept the outcome
JOINED = 0.2  # seconds of trials that are run in one job: those behind the one that tells are run for nothing


@dataclass(eq=False)
class Trial:
    """A case in some variants: what it costs, and how many of the copies that came so far it told."""

    planned: Planned
    wanted: Mapping[str, Bounded]
    variants: tuple[Variant, ...]
    seconds: float = 0.0
    runs: int = 0
    kills: int = 0

    @property
    def worth(self) -> float:
        return (self.kills + 0.5) / (self.runs + 1) / (self.seconds + JOB)


@dataclass(eq=False)
class Group:
    """Trials that share their pipelines; `compiling` is what these cost, in seconds: as `seen` of a copy, or else of
    the kernel itself."""

    trials: list[Trial]
    compiling: float = 0.0
    seen: bool = False

    @property
    def worth(self) -> float:
        runs, kills = max(t.runs for t in self.trials), sum(t.kills for t in self.trials)
        return (kills + 0.5) / (runs + 1) / (self.compiling + min(t.seconds for t in self.trials) + JOB)

    @property
    def deadline(self) -> float:
        """Seconds that the compilation of a copy may take."""
        return LEAST + SLOW_TO_COMPILE * self.compiling if self.seen else max(UNSEEN, PATIENCE * self.compiling)

    def compiled(self, seconds: float) -> None:
        """Learns from a copy what its pipelines cost: the most so far."""
        self.compiling, self.seen = max(self.compiling, seconds) if self.seen else seconds, True

    def jobs(self) -> Iterator[list[Trial]]:
        """The worthiest trial first, alone; then ever more in one job, while they take little time together."""
        ranked, start, size = sorted(self.trials, key=lambda t: -t.worth), 0, 1
        while start < len(ranked):
            spent = list(itertools.accumulate(t.seconds for t in ranked[start : start + size]))
            count = max(1, sum(seconds <= JOINED for seconds in spent))
            yield ranked[start : start + count]
            start, size = start + count, size * 3


class Trials:
    """The cases of `check` that are light enough, each seen to pass with the kernel itself, and timed.

    `most`: invocations of a case that is light enough, and `longest` the seconds that it may take. Raises
    ConformanceFailure where the kernel is wrong.
    """

    def __init__(self, check: Check, most: int, longest: float = math.inf) -> None:
        self.check, self.kernel, self.session, self.most = check, check.kernel, check.session, most
        self.longest = longest
        self.known: dict[tuple[str, str], Mapping[str, Bounded]] = {}  # what is wanted of a case, by its inputs
        self.groups = [g for g in self._groups() if g.trials]
        self.last: tuple[Group, Trial] | None = None  # what told the copy before: it often tells its neighbour too

    def tells(self, mutant: KernelSource) -> str:
        """The cause that the first trial to fail gives; empty where the copy passes all.

        Raises KernelError, CompileError, ValidationError or LimitError where it is no kernel.
        """
        try:
            for group, trials in self._jobs():
                if cause := self._told(mutant, trials, group):
                    return cause
        finally:
            self.session.forget(mutant.sha)
        return ""

    def _jobs(self) -> Iterator[tuple[Group, list[Trial]]]:
        if self.last is not None:
            yield self.last[0], [self.last[1]]
        for group in sorted(self.groups, key=lambda g: -g.worth):
            for trials in group.jobs():
                yield group, trials

    def _groups(self) -> Iterator[Group]:
        cases = sorted(self.check.fixed, key=self._weight)
        tunes = list({tuple(c.tune.items()): c.tune for c in cases}.values())
        quickest = min(tunes, key=lambda t: self._weight(replace(cases[0], tune=t)))
        first = self._group([replace(c, tune=quickest) for c in cases], VALUES)
        yield first
        cheap = sorted(first.trials, key=lambda t: t.seconds)[:ORDERED]
        yield self._group([t.planned.case for t in cheap], ORDER)
        for tune in tunes:
            if tune != quickest:
                own = [c for c in cases if c.tune == tune]
                more = [replace(c, tune=tune) for c in cases[:: 1 + len(cases) // SHARED] if c.tune != tune]
                yield self._group(sorted(own + more, key=self._weight), (*VALUES, "reversed"))

    def _group(self, cases: Sequence[Case], variants: tuple[Variant, ...]) -> Group:
        """Those of the cases that are light enough; the first in any case."""
        made = Group([])
        slow: list[tuple[int, ...]] = []  # invocations and dims of cases that took too long
        for case in cases:
            planned = self._plan(case)
            size = invocations(planned.launch), *case.dims.values()
            if made.trials and size[0] > self.most:
                break
            if any(all(a >= b for a, b in zip(size, other, strict=True)) for other in slow):
                continue
            trial = Trial(planned, self._wanted(planned), variants)
            trial.seconds = self._timed(trial)
            if made.trials and trial.seconds > self.longest:
                slow.append(size)
                continue
            if not made.trials:
                cold, trial.seconds = trial.seconds, self._timed(trial)
                made.compiling = max(0.0, cold - trial.seconds)
            made.trials.append(trial)
        return made

    def _wanted(self, planned: Planned) -> Mapping[str, Bounded]:
        """The reference of a case, which is the same for all tunables."""
        stored = sorted((a.name, a.dtype, a.storage) for a in planned.launch.arguments if a.role == "tensor")
        key = replace(planned.case, tune={}).to_json(), str(stored)
        if key not in self.known:
            self.known[key] = self.check.wanted(planned)
        return self.known[key]

    def _weight(self, case: Case) -> int:
        return invocations(self._plan(case).launch)

    def _timed(self, trial: Trial) -> float:
        """Seconds that the kernel itself takes."""
        began, patience = time.perf_counter(), self.check.settings.deadline
        (ran,) = self.session.run([(trial.planned, trial.variants)], patience, patience)
        seconds = time.perf_counter() - began
        verdict = judge(trial.planned, ran, trial.wanted, self.check.deterministic)
        if not verdict.right:
            raise self.check.failed(trial.planned.case, verdict)
        return seconds

    def _plan(self, case: Case) -> Planned:
        return self._narrowed(plan(self.check.contract, self.kernel, case))

    def _narrowed(self, planned: Planned) -> Planned:
        """With a folded grid of few columns, where the kernel asks how many there are."""
        if "num_workgroups" not in self.kernel.text:
            return planned
        passes = []
        for asked, made in zip(self.kernel.passes, planned.launch.passes, strict=True):
            if asked.workgroups and asked.workgroups[0].folds:
                count = math.prod(made.workgroups[:2])
                x = min(NARROW, count)
                made = replace(made, workgroups=(x, -(-count // x), made.workgroups[2]))
            passes.append(made)
        return replace(planned, launch=replace(planned.launch, passes=tuple(passes)))

    def _told(self, kernel: KernelSource, trials: Sequence[Trial], group: Group) -> str:
        planned = [self._copied(t, kernel) for t in trials]
        pairs = [(p, t.variants) for p, t in zip(planned, trials, strict=True)]
        expected = sum(t.seconds for t in trials)
        began, pipelines = time.perf_counter(), self.session.made
        try:
            left = self.session.run(pairs, max(LEAST, PATIENCE * expected), group.deadline)
        except (CompileError, ValidationError, LimitError):
            raise
        except GpuError as error:
            trials[0].runs, trials[0].kills = trials[0].runs + 1, trials[0].kills + 1
            return "hung" if isinstance(error, DeadlineExceeded) else "ended its process"
        if self.session.made > pipelines:
            group.compiled(max(0.0, time.perf_counter() - began - expected))
        for p, trial, ran in zip(planned, trials, left, strict=True):
            trial.runs += 1
            verdict = judge(p, ran, trial.wanted, self.check.deterministic)
            if not verdict.right:
                trial.kills += 1
                self.last = group, trial
                return verdict.findings[0].cause
        return ""

    def _copied(self, trial: Trial, mutant: KernelSource) -> Planned:
        """The trial's case for the copy: launched alike, unless that declares something else."""
        if (mutant.bindings, mutant.overrides) == (self.kernel.bindings, self.kernel.overrides):
            return replace(trial.planned, launch=replace(trial.planned.launch, kernel=mutant))
        return self._narrowed(plan(self.check.contract, mutant, trial.planned.case))
