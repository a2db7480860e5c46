"""Is a kernel right? An op, a kernel and a device to a verdict (CONFORMANCE.md, "Each case").

report = check(get("rms_norm"), kernel, runner)      # raises ConformanceFailure, whose message is the report
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pytest_webgpu.conformance import failure
from pytest_webgpu.conformance.bounds import Bounded, disagreement, explain, reference_with_bound
from pytest_webgpu.conformance.calibrate import calibration_of
from pytest_webgpu.conformance.execute import Planned, Ran, Session, Variant, plan, session
from pytest_webgpu.conformance.failure import ConformanceFailure, Subject
from pytest_webgpu.conformance.inputs import Case, cases, fixed_cases, smaller_cases
from pytest_webgpu.conformance.judge import Verdict, judge
from pytest_webgpu.conformance.settings import (
    BATCH,
    Report,
    Settings,
    hypothesis_settings,
    is_quick,
    register_profiles,
)
from pytest_webgpu.conformance.sizes import SLOWEST, invocations, table
from pytest_webgpu.gpu.job import (
    CompileError,
    DeadlineExceeded,
    DeviceLost,
    GpuError,
    OutOfMemory,
    Runner,
    RunnerDied,
)
from pytest_webgpu.ops.contract import Contract

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource

__all__ = ["ConformanceFailure", "Report", "Settings", "check", "register_profiles", "run_case"]
BASE: tuple[Variant, ...] = ("base",)
VARIANTS: tuple[tuple[int, tuple[Variant, ...]], ...] = (
    (1 << 15, ("base", "again", "reversed", "high", "low")),
    (1 << 17, ("base", "reversed", "high")),
)
"""In which variants a case runs, by how many invocations it has (64 times as many on hardware); beyond, the first."""
THOROUGH_FIRST, THOROUGH_EVERY = 10, 4  # which cases run in every variant: the first ten, then one in four
RETRIES = 5
REPLAYS = 20  # a race may show in one run of many
STEADY = 2  # runs more in which a case must fail to be called one that fails each time
SHRINKS = 16  # smaller cases tried in place of a fixed one that failed
PATIENCE = 4
"""How many deadlines a case may take, run once and by itself, of a kernel that was right before: a serial kernel on a
software adapter takes seconds for the largest sizes, which is no hang."""


class Wrong(Exception):
    """A case that is not right, on its way to be simplified and told."""

    def __init__(self, case: Case, verdict: Verdict) -> None:
        super().__init__(case, verdict)
        self.case, self.verdict = case, verdict

    @property
    def cause(self) -> str:
        return self.verdict.findings[0].cause


def check(contract: Contract, kernel: KernelSource, runner: Runner, *, settings: Settings | None = None) -> Report:
    """Holds the kernel to the contract on fixed and drawn cases.

    Raises ConformanceFailure when it is wrong, hangs or dies; KernelError where its header or bindings do not fit
    the op; CompileError where its WGSL does not compile.
    """
    with one_thread():
        return Check(contract, kernel, runner, settings or Settings()).run()


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: the arrays are small, and more threads only wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def run_case(
    contract: Contract, kernel: KernelSource, runner: Runner, case: Case, settings: Settings | None = None
) -> Verdict:
    """The verdict on one case, in every variant, without raising for a wrong result."""
    return Check(contract, kernel, runner, settings or Settings()).verdicts([case], everything=True)[0]


class Check:
    def __init__(self, contract: Contract, kernel: KernelSource, runner: Runner, settings: Settings) -> None:
        self.contract, self.kernel, self.settings = contract, kernel, settings
        self.session: Session = session(runner)
        self.subject = Subject(contract, kernel, runner.info, settings.options)
        self.device = _device(settings.reference)
        self.calibration = settings.calibration or calibration_of(runner)
        software = runner.info.software
        self.scale = 1 if software else 64
        self.fixed = fixed_cases(contract, kernel, software, is_quick(settings))
        self.sized = len(table(contract, kernel, software).fixed)
        self.software = software
        self.deterministic = contract.deterministic and kernel.header.deterministic
        self.report = Report(contract.name, kernel.name, self.subject.adapter)

    def run(self) -> Report:
        try:
            if self.settings.replay is not None:
                self.held_replayed(self.settings.replay)
            else:
                self.held_fixed()
                self.held_drawn()
        except Wrong as wrong:
            raise self.failed(wrong.case, wrong.verdict) from None
        return self.finished()

    def held_replayed(self, case: Case) -> None:
        for verdict in self.verdicts([case] * REPLAYS, everything=True):
            if not verdict.right:
                raise Wrong(case, verdict)
        self.hold([case], everything=True)

    def held_fixed(self) -> None:
        """A failure that does not come back is kept while a case is looked for that fails each time: it replays."""
        unsteady: Wrong | None = None
        for start in [0, *range(1, len(self.fixed), BATCH)]:
            end = start + BATCH if start else 1  # alone: a kernel that always hangs is told at once
            try:  # what depends on order depends on sizes, not on patterns
                self.hold(self.fixed[start:end], everything=start < self.sized)
            except Wrong as wrong:
                if self.steady(wrong.case):
                    raise self.simplest(wrong) from None
                unsteady = unsteady or wrong
        if unsteady:
            raise unsteady

    def steady(self, case: Case) -> bool:
        return not any(verdict.right for verdict in self.verdicts([case] * STEADY, everything=True))

    def simplest(self, wrong: Wrong) -> Wrong:
        """The first smaller case that fails for the same cause, each time that it runs."""
        for case in smaller_cases(self.contract, self.kernel, self.software, wrong.case)[:SHRINKS]:
            try:
                self.hold([case], everything=True)
            except Wrong as simpler:
                if simpler.cause == wrong.cause and self.steady(case):
                    return simpler
        return wrong

    def held_drawn(self) -> None:
        """Cases drawn by Hypothesis, and shrunk by it; one of them where this runs inside a test that it drives."""
        import hypothesis
        from hypothesis import strategies as st

        if hypothesis.currently_in_test_context():
            self.hold([replace(self.fixed[-1], pattern="normal", seed=self.fixed[-1].seed + 1)])
            return
        stopped: Exception | None = None

        @hypothesis_settings(self.settings)
        @hypothesis.given(st.lists(cases(self.contract, self.kernel, self.software), min_size=1, max_size=BATCH))
        def examples(batch: list[Case]) -> None:
            nonlocal stopped
            if stopped is None:
                try:
                    self.hold(batch)
                except Wrong as wrong:
                    if self.verdicts([wrong.case], everything=True)[0].right:
                        stopped = wrong  # it does not fail each time, which Hypothesis would take amiss
                    else:
                        raise
                except Exception as error:  # a hang or a crash is not to be tried again
                    stopped = error

        examples()
        if stopped is not None:
            raise stopped

    def hold(self, batch: Sequence[Case], everything: bool = False) -> None:
        """Runs a batch; raises Wrong for the first case that is."""
        for case, verdict in zip(batch, self.verdicts(batch, everything), strict=True):
            if not verdict.right:
                raise Wrong(case, verdict)
            self.report.cases += 1
            self.report.elements += verdict.elements
            self.report.unspecified += verdict.unspecified
            self.report.unspecified_share += verdict.unspecified / max(1, verdict.elements)
            self.report.headroom = max(self.report.headroom, verdict.headroom)
            if case.independent:  # of ordered data any order of the terms must be right, so those bounds are loose
                self.report.loosest = max(self.report.loosest, verdict.loosest)

    def verdicts(self, batch: Sequence[Case], everything: bool = False) -> list[Verdict]:
        planned = [self.plan(case) for case in batch]
        thorough = [everything or self._thorough(self.report.cases + i) for i in range(len(batch))]
        variants = [self.variants(p) if all_ else BASE for p, all_ in zip(planned, thorough, strict=True)]
        ran = self.execute(planned, variants)
        return [judge(p, r, self.wanted(p), self.deterministic) for p, r in zip(planned, ran, strict=True)]

    def variants(self, planned: Planned) -> Sequence[Variant]:
        count = invocations(planned.launch)
        return next((v for limit, v in VARIANTS if count <= limit * self.scale), BASE)

    @staticmethod
    def _thorough(number: int) -> bool:
        return number < THOROUGH_FIRST or number % THOROUGH_EVERY == 0

    def plan(self, case: Case) -> Planned:
        return plan(self.contract, self.kernel, case)

    def execute(
        self, planned: list[Planned], variants: Sequence[Sequence[Variant]], deadlines: int = 1, again: bool = False
    ) -> list[dict[Variant, Ran]]:
        """Runs a batch; where that ends badly, its cases one by one, so that the one at fault is named.

        A case that is late by itself runs once more, in the first variant only and with PATIENCE deadlines. One whose
        process dies runs `again`, since a driver may crash once and not by the kernel's fault: that is noted.
        """
        pairs = list(zip(planned, variants, strict=True))
        deadline = self.settings.deadline
        try:
            work = sum(invocations(p.launch) * len(v) for p, v in pairs) if self.software else 0
            return self.session.run(pairs, deadlines * deadline + SLOWEST * work, deadline)
        except CompileError:
            raise
        except GpuError as error:
            if len(pairs) > 1:
                return [self.execute([p], [v])[0] for p, v in pairs]
            if isinstance(error, RunnerDied) and not again:
                ran = self.execute(planned, variants, deadlines, again=True)
                case = planned[0].case.to_json()
                self.report.notes.append(f"the process died in the case {case} and not again: {error}")
                return ran
            late = isinstance(error, DeadlineExceeded) and deadlines == 1
            if late and self.software and self.report.cases:
                return self.execute(planned, [BASE], PATIENCE)
            raise self.broken(planned[0].case, error) from None

    def broken(self, case: Case, error: GpuError) -> ConformanceFailure:
        cause = _WORDS.get(type(error), "refused")
        text = failure.describe_error(self.subject, case, cause, error)
        return ConformanceFailure(text + self.left_behind(self.plan(case), {}, text), case, cause)

    def wanted(self, planned: Planned) -> dict[str, Bounded]:
        found = self.reference(planned, self.device)
        if self.device.type != "cpu" and self.report.cases < THOROUGH_FIRST:
            differs = disagreement(self.reference(planned, torch.device("cpu")), found)
            if differs:
                raise RuntimeError(f"{self.contract.name}: the references on cpu and {self.device} disagree: {differs}")
        return found

    def reference(self, planned: Planned, device: torch.device) -> dict[str, Bounded]:
        dtypes = {a.name: a.dtype for a in planned.launch.arguments if a.role == "tensor"}
        return reference_with_bound(
            self.contract, self.tensors(planned, device), {**planned.case.scalars, **planned.case.dims}, dtypes,
            planned.case.independent, self.calibration,
        )  # fmt: skip

    @staticmethod
    def tensors(planned: Planned, device: torch.device) -> dict[str, torch.Tensor]:
        return {n: torch.from_numpy(_signed(a)).to(device) for n, a in planned.inputs.items()}

    def failed(self, case: Case, verdict: Verdict) -> ConformanceFailure:
        """The failure of a case, after it was run again five times: a race does not fail each time."""
        again = [self.verdicts([case], everything=True)[0] for _ in range(RETRIES)]
        failures = sum(not v.right for v in again)
        told = next((v for v in again if not v.right), verdict)
        element = told.worst
        shares: list[tuple[str, str, float]] = []
        planned = self.plan(case)
        if element is not None and element.bound > 0:
            names = {**case.scalars, **case.dims}
            shares = explain(
                self.contract, self.tensors(planned, self.device), names, element.output, element.index,
                case.independent, self.calibration,
            )  # fmt: skip
        text = failure.describe(self.subject, case, told, failures + 1, RETRIES + 1, shares)
        text += self.left_behind(planned, self.wanted(planned), text)
        return ConformanceFailure(text, case, told.findings[0].cause)

    def left_behind(self, planned: Planned, wanted: Mapping[str, Bounded], text: str) -> str:
        """The line that says where the reproducer lies; nothing where none was asked for."""
        if self.settings.failures is None:
            return ""
        from pytest_webgpu.conformance import reproducer

        place = reproducer.write(self.settings.failures, self.subject, planned, wanted, text)
        return f"\n  without us     python {place / 'reproduce.py'}\n  in a browser   {place / 'reproduce.html'}"

    def finished(self) -> Report:
        report = self.report
        if report.elements and report.unspecified == report.elements:
            text = f"{self.subject.title}: nothing could be compared: every element is unspecified (overflow)"
            raise ConformanceFailure(text)
        report.unspecified_share /= max(1, report.cases)
        if (share := report.unspecified_share) > 0.1:
            report.notes.append(
                f"{share:.0%} of a case's elements, on average, are unspecified (overflow): not compared"
            )
        if report.headroom > 0.7:
            report.notes.append(f"uses {report.headroom:.2f} of its bound")
        if report.loosest > 1e-2:
            report.notes.append(f"the bound is loose: in one case its median is {report.loosest:.1%} of the output")
        return report


_WORDS = {DeadlineExceeded: "hung", RunnerDied: "took the process down", DeviceLost: "lost the device",
          OutOfMemory: "ran out of memory"}  # fmt: skip


def _signed(values: Any) -> Any:
    """torch has no unsigned 32-bit arithmetic: such integers widen."""
    return values.astype(np.int64) if values.dtype == np.uint32 else values


def _device(reference: str) -> torch.device:
    if reference == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            "--webgpu-reference=cuda: this torch sees no CUDA device; leave it out, or install torch for CUDA"
        )
    return torch.device(reference)
