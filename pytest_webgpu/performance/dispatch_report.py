"""The figures of `performance.dispatch`, what people know them by, and what would mislead about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.gpu.job import DeviceInfo, Mode
from pytest_webgpu.performance.known_cost import Moved
from pytest_webgpu.performance.stats import DISTURBED, Estimate, Fit

PREFIX = "performance.dispatch."  # of everything that is made on the device
NAIVE_N = 100
_WHERE = ("adapter", "backend", "software", "implementation", "version")


@dataclass(frozen=True)
class Setup:
    """One way to issue dispatches. `label` names what differs from the base of its mode."""

    mode: Mode = "one-pass"
    dtype: str = "f32"
    dependent: bool = True
    fresh_bind_groups: bool = False
    zero_workgroups: bool = False

    @property
    def label(self) -> str:
        parts: list[str] = [self.mode]
        parts += [self.dtype] if self.dtype != "f32" else []
        parts += ["independent"] if not self.dependent else []
        parts += ["fresh bind groups"] if self.fresh_bind_groups else []
        parts += ["zero workgroups"] if self.zero_workgroups else []
        return ", ".join(parts)

    @property
    def program(self) -> str:
        return f"{PREFIX}{self.dtype}.{'dependent' if self.dependent else 'independent'}"


BASE = Setup()


@dataclass(frozen=True)
class Figure:
    """A setup and its line. `naive` is the single-op figure people know, T(1); `total_over_n` T(N)/N at N = 100."""

    setup: Setup
    fit: Fit

    @property
    def naive(self) -> float:
        return self.fit.measured(1)

    @property
    def naive_ratio(self) -> float:
        """How many times the single-op figure overstates a dispatch's cost."""
        return self.naive / self.fit.b.value

    @property
    def total_over_n(self) -> tuple[int, float]:
        """(N, T(N) / N in seconds), N being 100 or the largest that was measured."""
        n = max(n for n in self.fit.counts if n <= NAIVE_N)
        return n, self.fit.measured(n) / n


@dataclass(frozen=True)
class Transfer:
    """Seconds to write `size` bytes and wait, and to read them back."""

    size: int
    write: Estimate
    read: Estimate


@dataclass(frozen=True)
class Unpolled:
    """What plain waiting gives where completion is told on a timer: an empty wait, and T(N) / N by label, in seconds.

    N is 100, or else the largest that was measured.
    """

    empty_wait: Estimate
    total_over_n: Mapping[str, float]


@dataclass(frozen=True)
class DispatchReport:
    """All in seconds. `figures` by label, `phases` and `creation` by name; `cut` and `warnings` in words.

    `known`: how far b moved when a delay was put into each dispatch, and a with it.
    `device_time` of a dispatch is by timestamp queries (None without fine enough ones: b is then what there is).
    `clocks`: before and after, where the driver tells.
    """

    info: DeviceInfo
    fence: str
    clock_step: float
    empty_wait: Estimate
    read_back: Estimate
    figures: Mapping[str, Figure]
    phases: Mapping[str, Estimate]
    creation: Mapping[str, Estimate]
    transfers: tuple[Transfer, ...]
    device_time: Estimate | None
    known: tuple[Moved, ...]
    unpolled: Unpolled | None
    clocks: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    cut: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: float

    @property
    def base(self) -> Figure:
        return self.figures[BASE.label]

    @property
    def b(self) -> Estimate:
        """A dispatch in one pass, bind groups ahead."""
        return self.base.fit.b

    @property
    def a(self) -> Estimate:
        return self.base.fit.a

    @property
    def phase_sum(self) -> float:
        """The phases' medians together, to be held against phases["whole"]."""
        return sum(e.value for name, e in self.phases.items() if name != "whole")

    def api_cost(self, mode: Mode) -> Estimate | None:
        """b with zero workgroups: what the API costs, without the device's time. None where not measured."""
        figure = self.figures.get(Setup(mode, zero_workgroups=True).label)
        return figure.fit.b if figure else None

    def as_dict(self) -> dict[str, Any]:
        """The whole report as JSON-able data."""
        return dataclasses.asdict(self)

    def finding(self) -> dict[str, Any]:
        """What a test run keeps of it, in seconds; estimates without their rounds, as {"value", "low", "high"}."""
        return {
            **{name: getattr(self.info, name) for name in _WHERE},
            "fence": self.fence, "clock_step": self.clock_step,
            "empty_wait": _brief(self.empty_wait), "read_back": _brief(self.read_back),
            "rows": [
                {"label": label, "b": f.fit.b.value, "low": f.fit.b.low, "high": f.fit.b.high, "cv": f.fit.b.cv,
                 "a": f.fit.a.value, "a_low": f.fit.a.low, "a_high": f.fit.a.high, "floor": f.fit.b_floor,
                 "naive": f.naive, "naive_ratio": f.naive_ratio, "total_over_n": f.total_over_n}
                for label, f in self.figures.items()
            ],
            "unpolled": self.unpolled and {
                "empty_wait": self.unpolled.empty_wait.value, "total_over_n": dict(self.unpolled.total_over_n),
            },
            "phases": {name: _brief(e) for name, e in self.phases.items()},
            "phase_sum": self.phase_sum,
            "creation": {name: _brief(e) for name, e in self.creation.items()},
            "transfers": [{"size": t.size, "write": _brief(t.write), "read": _brief(t.read)} for t in self.transfers],
            "known": [
                {"label": m.label, "put": m.put, "b": m.b, "a": m.a, "share": m.share,
                 "by_rounds": _brief(m.by_rounds), "found": m.found}
                for m in self.known
            ],
            "device_time": self.device_time and _brief(self.device_time),
            "clocks": self.clocks, "cut": self.cut, "warnings": self.warnings, "seconds": self.seconds,
        }  # fmt: skip


def artefacts(report: DispatchReport) -> list[str]:
    """What would mislead a reader of the figures."""
    found = []
    if report.empty_wait.value > 20e-3:
        found.append(f"an empty wait takes {report.empty_wait.value * 1e3:.0f} ms: completion is polled, and every "
                     "figure that ends in one wait a dispatch, or divides a total by N, holds that poll")  # fmt: skip
    if report.unpolled is not None:
        wait = f"{report.unpolled.empty_wait.value * 1e3:.0f} ms"
        found.append(f"completion is told on a timer: a plain wait takes {wait}, and a total divided by N is that "
                     "timer's; the other figures are measured polling")  # fmt: skip
    if report.clock_step > 10e-6:
        found.append(f"the clock steps {report.clock_step * 1e6:.0f} us: samples are lengthened to 100 steps")
    if report.info.software:
        found.append("a software adapter runs the kernel on the processor that issues it: only the zero-workgroup "
                     "rows are the API's own")  # fmt: skip
    varying = [f"{label} by {f.fit.b.cv:.0%}" for label, f in report.figures.items() if f.fit.b.cv > DISTURBED]
    if varying:
        found.append("b varies between rounds with a CV over 10 %, so that its interval is drawn down to the floor: "
                     + ", ".join(varying))  # fmt: skip
    for label, figure in report.figures.items():
        base = report.figures.get(dataclasses.replace(figure.setup, dtype="f32").label)
        if base is not None and figure is not base and _differ(figure.fit.b, base.fit.b):
            found.append(f"{label}: b is {figure.fit.b.value / base.fit.b.value:.2f} of f32's, and a dispatch's cost "
                         "must not depend on the dtype: the kernel shows in it")  # fmt: skip
    found += [f"a known cost was not found: {moved}" for moved in report.known if not moved.found]
    for state in report.clocks:
        if state and state["throttled"]:
            found.append(f"the GPU was throttled: {', '.join(state['throttled'])}, {state['sm_mhz']} MHz")
    whole = report.phases["whole"].value
    if not 0.8 < report.phase_sum / whole < 1.25:
        found.append(f"the phases add up to {report.phase_sum / whole:.0%} of a dispatch timed whole")
    return found


def _brief(e: Estimate) -> dict[str, float]:
    return {"value": e.value, "low": e.low, "high": e.high}


def _differ(one: Estimate, other: Estimate) -> bool:
    """True for intervals that do not meet and values more than 5 % apart."""
    return (one.low > other.high or other.low > one.high) and abs(one.value / other.value - 1) > 0.05
