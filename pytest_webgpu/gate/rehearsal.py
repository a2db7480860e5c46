"""The stored-baseline rule rehearsed: sessions measured here and now, each judged by the five before it.

A session is the least of fresh processes, as in a gate run. A slowdown is real extra work, as in `selftest`. All
sessions are of one sitting, where those of a baseline are apart: they vary less than days do, and the rates say how
the rule does on this machine's noise within one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pytest_webgpu.gate.rules import Observation, judge
from pytest_webgpu.gate.selftest import SLOWDOWNS, STEP, Rate
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.canary import KEY as CANARY
from pytest_webgpu.performance.canary import canary_seconds
from pytest_webgpu.performance.compare import launches_a_sample, round_minima
from pytest_webgpu.performance.prepare import Candidate, Prepared, prepared
from pytest_webgpu.performance.stats import Verdict

BASELINE = 5
LEAST_SESSIONS = BASELINE + 2  # one to be judged, and a second one that decides
ROUNDS = 5
Opened = Callable[[], AbstractContextManager[Runner]]
"""Opens a device in a fresh process."""


@dataclass(frozen=True)
class Session:
    """`seconds[key][slowdown]`: a launch's time, the least of the processes'."""

    seconds: Mapping[str, Mapping[float, float]]
    canary: float


@dataclass(frozen=True)
class Rehearsed:
    """What the stored rule said of one benchmark at one slowdown (0: A against A), of those that were judged."""

    key: str
    slowdown: float
    worse: Rate
    cannot_tell: int
    reasons: Mapping[str, int]


def measure_sessions(
    opened: Opened, candidates: Sequence[Candidate], count: int, processes: int,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Session]:  # fmt: skip
    """Measures `count` sessions, each in so many fresh processes. Raises as performance.compare.compare_kernels."""
    launches: list[int] = []
    found = []
    for number in range(count):
        progress(f"session {number + 1} of {count}")
        least: dict[str, dict[float, float]] = {c.key: {} for c in candidates}
        canaries = []
        for process in range(processes):
            with opened() as runner, prepared(runner, candidates, 0) as made:
                launches = launches or [-(-launches_a_sample(runner, [one]) // STEP) * STEP for one in made]
                canaries.append(canary_seconds())
                for key, slowed in _process(runner, made, launches, candidates, number * processes + process):
                    least[key] = {s: min(v, least[key].get(s, v)) for s, v in slowed.items()}
        found.append(Session(least, min(canaries)))
    return found


def _process(
    runner: Runner, made: Sequence[Prepared], launches: Sequence[int], candidates: Sequence[Candidate], seed: int
) -> Iterator[tuple[str, dict[float, float]]]:
    """Each candidate's time a launch that it claims, at each slowdown: it launches more than it claims."""
    variants = [(one, round(n * (1 + s))) for one, n in zip(made, launches, strict=True) for s in SLOWDOWNS]
    claimed = [n for n in launches for _ in SLOWDOWNS]
    minima = round_minima(runner, variants, ROUNDS, seed)
    seconds = [min(row) / n for row, n in zip(minima, claimed, strict=True)]
    for index, candidate in enumerate(candidates):
        first = index * len(SLOWDOWNS)
        yield candidate.key, dict(zip(SLOWDOWNS, seconds[first : first + len(SLOWDOWNS)], strict=True))


def rehearse(sessions: Sequence[Session], software: bool = False) -> list[Rehearsed]:
    """Each session from the sixth on is judged by the five before it, with one benchmark slowed at a time; where that
    is over, the session after it decides, or nothing does on a software adapter. Raises ValueError for fewer than
    seven sessions."""
    if len(sessions) < LEAST_SESSIONS:
        raise ValueError(f"{len(sessions)} sessions, and {LEAST_SESSIONS} are the fewest of which one can be judged")
    told = []
    for key, slowed in sessions[0].seconds.items():
        for slowdown in slowed:
            given: Counter[Verdict | None] = Counter()
            reasons: Counter[str] = Counter()
            for now in range(BASELINE, len(sessions) - 1):
                verdict, reason = _judge(sessions, now, key, slowdown, software)
                given[verdict] += 1
                if verdict is Verdict.CANNOT_TELL:
                    reasons[reason] += 1
            judged = given[Verdict.WORSE] + given[Verdict.NOT_WORSE]
            rate = Rate(given[Verdict.WORSE], judged)
            told.append(Rehearsed(key, slowdown, rate, given[Verdict.CANNOT_TELL], reasons))
    return told


def _judge(
    sessions: Sequence[Session], now: int, key: str, slowdown: float, software: bool
) -> tuple[Verdict | None, str]:
    past = sessions[now - BASELINE : now]
    canary = Observation(CANARY, sessions[now].canary, [s.canary for s in past])
    for second in (None, sessions[now + 1].seconds[key][slowdown]):
        seen = [
            Observation(k, sessions[now].seconds[k][slowdown if k == key else 0.0], [s.seconds[k][0.0] for s in past],
                        second if k == key else None)
            for k in sessions[now].seconds
        ]  # fmt: skip
        judgement = next(j for j in judge(seen, canary, software) if j.key == key)
        if not judgement.remeasure:
            break
    return judgement.verdict, judgement.reason


def told(results: Sequence[Rehearsed]) -> Iterator[str]:
    """The rates, a line each, then those of all together: false alarms first."""
    for slowdown in dict.fromkeys(one.slowdown for one in results):
        those = [one for one in results if one.slowdown == slowdown]
        judged = sum(one.worse.trials for one in those)
        everything = Rate(sum(one.worse.hits for one in those), judged)
        cannot = sum(one.cannot_tell for one in those)
        what = "A against A, called worse" if not slowdown else f"{slowdown:.0%} slower, found"
        yield f"stored baselines: {what} {everything} of {judged} judged; cannot tell {cannot}"
        for one in those:
            yield f"  {one.key}: {one.worse} of {one.worse.trials} judged; cannot tell {one.cannot_tell}"
