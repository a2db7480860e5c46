"""When did something get worse? Two rules that answer worse, not worse, or cannot tell; and counts, which are exact.

The stored-baseline rule compares a session's values with those of the last accepted sittings; it is judged twice,
in two sessions, before it says WORSE. The paired rule is `performance.stats.compare`.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from pytest_webgpu.performance.stats import Floats, Verdict

LEAST_SITTINGS, MOST_SITTINGS = 3, 20
HOLM_SITTINGS = 10  # with fewer, Holm's levels push every limit past the widest
GATED = 8
LEVEL = 0.95
FLOOR = math.log(1.05)  # below 5 % nothing is called worse
WIDEST = math.log(1.12)  # a limit above 12 % judges nothing
PRIOR_SD, PRIOR_DF = 0.03, 3
BIT = 2.0  # an error that became twice as large has lost a bit; less is how a compiler happens to round
ALL_AT_ONCE = 3  # from so many judged benchmarks on, more than half over at once is the machine, not the code
SITTING = datetime.timedelta(hours=1)
SHARED = ("over its limit, on a software adapter, which shares the processor with whatever else runs: compare in one "
          "process, --webgpu-against=REVISION")  # fmt: skip
"""Why a stored baseline calls nothing worse there: sessions differ by 22 to 27 % where others use the machine too."""


@dataclass(frozen=True)
class Observation:
    """A value of this session (lower is better: seconds, never a rate) and the same of past sittings, oldest first.

    `second` is the value of a second session, measured at once because the first was over its limit.
    """

    key: str
    value: float
    baseline: Sequence[float] = ()
    second: float | None = None


@dataclass(frozen=True)
class Judgement:
    """`verdict` None: listed, not judged. `ratio` is value / baseline, `limit` the ratio that is still accepted."""

    key: str
    verdict: Verdict | None
    reason: str
    ratio: float = math.nan
    limit: float = math.nan
    sittings: int = 0
    remeasure: bool = False  # over its limit once: a second session decides


def shrunk_sd(logs: Floats) -> Floats:
    """Standard deviation along the last axis, shrunk to 3 % as if 3 more sessions had told of that."""
    k = logs.shape[-1]
    squares = np.square(logs - logs.mean(axis=-1, keepdims=True)).sum(axis=-1)
    sd: Floats = np.sqrt((PRIOR_DF * PRIOR_SD**2 + squares) / (PRIOR_DF + k - 1))
    return sd


def limit(logs: Floats, level: float = LEVEL) -> Floats:
    """How far over the mean of `logs` (..., K) a new log value may lie: max(5 %, t s sqrt(1 + 1/K)), in log space."""
    k = logs.shape[-1]
    t = special.stdtrit(PRIOR_DF + k - 1, level)
    wide: Floats = np.maximum(FLOOR, t * shrunk_sd(logs) * math.sqrt(1 + 1 / k))
    return wide


def _p_value(excess: float, logs: Floats) -> float:
    k = len(logs)
    return float(special.stdtr(PRIOR_DF + k - 1, -excess / (float(shrunk_sd(logs)) * math.sqrt(1 + 1 / k))))


def _logs(observation: Observation) -> Floats:
    """The baseline's log values. Raises ValueError for a value of the observation that cannot be judged."""
    baseline = observation.baseline[-MOST_SITTINGS:]
    second = () if observation.second is None else (observation.second,)
    for value in (observation.value, *second, *baseline):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{observation.key}: {value} cannot be judged: a value is positive and finite")
    return np.log(np.asarray(baseline, dtype=np.float64))


def _levels(excess: Mapping[str, float], logs: Mapping[str, Floats]) -> dict[str, float]:
    """The level of each benchmark's limit: 95 %, and by Holm's steps among those with ten sittings or more."""
    levels = dict.fromkeys(logs, LEVEL)
    p_values = {key: _p_value(excess[key], logs[key]) for key in logs if len(logs[key]) >= HOLM_SITTINGS}
    alpha, stopped = 1 - LEVEL, False
    for step, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        if not stopped:
            alpha = (1 - LEVEL) / (len(p_values) - step)
        levels[key] = 1 - alpha
        stopped = stopped or p_values[key] > alpha
    return levels


def judge(
    observations: Sequence[Observation], canary: Observation | None = None, software: bool = False
) -> list[Judgement]:
    """The stored-baseline rule over one session. The first eight observations gate; the rest are listed. What is over
    on a `software` adapter is judged by no second session either.

    Call it again with `second` filled in wherever a judgement says `remeasure`. Raises ValueError for a value that
    is not positive and finite.
    """
    if len({o.key for o in observations}) != len(observations):
        raise ValueError("two observations have one key")
    gated = {o.key: o for o in observations[:GATED] if len(o.baseline) >= LEAST_SITTINGS}
    logs = {o.key: _logs(o) for o in observations}
    excess = {key: math.log(o.value) - float(logs[key].mean()) for key, o in gated.items()}
    levels = _levels(excess, {key: logs[key] for key in gated})
    limits = {key: float(limit(logs[key], levels[key])) for key in gated}
    steady = {key for key in gated if limits[key] <= WIDEST}
    over = {key for key in steady if excess[key] > limits[key]}
    whole = _why_nothing_can_be_told(canary, len(over), len(steady))
    judged = []
    for index, o in enumerate(observations):
        sittings = len(logs[o.key])
        ratio = math.exp(math.log(o.value) - float(logs[o.key].mean())) if sittings else math.nan
        bound = limits.get(o.key, math.nan)
        verdict: Verdict | None = Verdict.NOT_WORSE
        reason, again = "within its limit", False
        if index >= GATED:
            verdict, reason = None, f"listed only: {GATED} benchmarks gate"
        elif sittings < LEAST_SITTINGS:
            verdict = Verdict.NO_BASELINE
            reason = f"{sittings} accepted sittings, and a verdict needs {LEAST_SITTINGS}: --webgpu-update-baselines"
        elif whole:
            verdict, reason = Verdict.CANNOT_TELL, whole
        elif o.key not in steady:
            verdict, reason = Verdict.CANNOT_TELL, f"its sittings vary so that the limit is {math.expm1(bound):.0%}"
        elif o.key in over and software:
            verdict, reason = Verdict.CANNOT_TELL, SHARED
        elif o.key in over and o.second is None:
            verdict, reason, again = Verdict.CANNOT_TELL, "over its limit once: a second session decides", True
        elif o.key in over and o.second is not None:
            if math.log(o.second) - float(logs[o.key].mean()) > bound:
                verdict, reason = Verdict.WORSE, f"over its limit of {math.expm1(bound):.1%} in two sessions"
            else:
                reason = "over its limit once, not in the second session"
        judged.append(Judgement(o.key, verdict, reason, ratio, math.exp(bound), sittings, again))
    return judged


def _why_nothing_can_be_told(canary: Observation | None, over: int, judged: int) -> str:
    if canary is not None and len(logs := _logs(canary)) >= LEAST_SITTINGS:
        off = math.log(canary.value) - float(logs.mean())
        if abs(off) > float(limit(logs)):
            return f"the canary took {math.exp(off):.2f} of its usual time: this machine is not what it was"
    if judged >= ALL_AT_ONCE and over > judged / 2:
        return f"{over} of {judged} are over at once: that is the machine, until a paired comparison says otherwise"
    return ""


@dataclass(frozen=True)
class Count:
    """An exact count and what it is made of: Count(15, {"rms_norm": 5, "linear": 10})."""

    total: int
    parts: Mapping[str, int] = field(default_factory=dict)


def judge_count(key: str, now: Count, then: Count | None) -> Judgement:
    """Any more is WORSE, and the reason names the parts that grew."""
    if then is None:
        return Judgement(key, Verdict.NO_BASELINE, "never recorded: --webgpu-update-baselines")
    changes = [
        f"{part}: {then.parts.get(part, 0)} -> {now.parts.get(part, 0)}"
        for part in dict.fromkeys((*then.parts, *now.parts))
        if then.parts.get(part, 0) != now.parts.get(part, 0)
    ]
    moved = f"{then.total} -> {now.total}" + (f" ({', '.join(changes)})" if changes else "")
    ratio = now.total / then.total if then.total else math.inf if now.total else 1.0
    if now.total > then.total:
        return Judgement(key, Verdict.WORSE, moved, ratio, 1.0, 1)
    reason = "as recorded" if now == then else f"{moved}: record it with --webgpu-update-baselines"
    return Judgement(key, Verdict.NOT_WORSE, reason, ratio, 1.0, 1)


def judge_ratio(key: str, now: float, then: float | None) -> Judgement:
    """A share of an error bound, which no clock is in: WORSE when it is more than twice what was recorded, a bit."""
    if then is None:
        return Judgement(key, Verdict.NO_BASELINE, "never recorded: --webgpu-update-baselines")
    ratio = now / then if then else math.inf if now else 1.0
    reason = f"{then:.2f} -> {now:.2f} of what a correct kernel may be off by"
    return Judgement(key, Verdict.WORSE if ratio > BIT else Verdict.NOT_WORSE, reason, ratio, BIT, 1)


def sittings(stamps: Sequence[tuple[str, datetime.datetime]]) -> list[list[int]]:
    """Indices of sessions (boot, start) by sitting, oldest first: one boot, and within an hour of its first."""
    order = sorted(range(len(stamps)), key=lambda i: stamps[i][1])
    groups: list[list[int]] = []
    first: dict[str, tuple[datetime.datetime, list[int]]] = {}
    for i in order:
        boot, start = stamps[i]
        if boot in first and start - first[boot][0] < SITTING:
            first[boot][1].append(i)
        else:
            groups.append([i])
            first[boot] = (start, groups[-1])
    return groups
