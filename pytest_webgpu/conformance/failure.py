"""What a failed check says: everything that leads to the line at fault, and the command that shows it again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_webgpu.conformance.inputs import Case
from pytest_webgpu.conformance.judge import Verdict
from pytest_webgpu.gpu.job import DeviceInfo
from pytest_webgpu.ops.contract import Contract

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource


class ConformanceFailure(AssertionError):
    """A kernel is wrong. The message is the whole report; `case` shows it again, `cause` says what is likely."""

    def __init__(self, message: str, case: Case | None = None, cause: str = "") -> None:
        super().__init__(message)
        self.case, self.cause = case, cause


@dataclass(frozen=True)
class Subject:
    """What is checked, where; `options` are those that a run has to be given again to be on the same device."""

    contract: Contract
    kernel: KernelSource
    info: DeviceInfo
    options: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        file = self.kernel.path or self.kernel.name
        variant = f" [{', '.join(t for _, t in self.kernel.variant)}]" if self.kernel.variant else ""
        return f"{file}{variant} as {self.contract.name}"

    @property
    def adapter(self) -> str:
        software = ", software" if self.info.software else ""
        return f"{self.info.adapter} ({self.info.implementation} {self.info.version}, {self.info.backend}{software})"


def sizes(case: Case) -> str:
    names = {**case.dims, **case.scalars, **case.tune}
    return ", ".join(f"{n}={v:g}" if isinstance(v, float) else f"{n}={v}" for n, v in names.items())


def replay_command(subject: Subject, case: Case) -> str:
    file = str(subject.kernel.path) if subject.kernel.path else "FILE"
    options = "".join(f" {shlex.quote(option)}" for option in subject.options)
    return f"pytest {shlex.quote(file)}{options} --webgpu-replay={shlex.quote(case.to_json())}"


def describe(
    subject: Subject, case: Case, verdict: Verdict, failed: int, tries: int,
    shares: Sequence[tuple[str, str, float]] = (),
) -> str:  # fmt: skip
    """The report of one failing case."""
    first = verdict.findings[0]
    lines = [f"{first.cause}: {subject.title} is wrong", ""]  # pytest shows the first words alone
    lines += [f"  {f.cause}: {f.evidence}" for f in verdict.findings[:4]]
    element = verdict.worst
    if element is not None:
        exact = " (only the exact value is right)" if not element.bound else ""
        lines += [
            "",
            f"  worst element  {element.output}{list(element.index)}",
            f"  got            {element.got!r}",
            f"  wanted         {element.wanted!r}{exact}",
        ]
        if element.bound:
            lines.append(f"  bound          {element.bound:.3g}")
        if element.bound and math.isfinite(element.ratio):
            error = f"{abs(element.got - element.wanted):.3g}: {element.ratio:.3g} times the bound"
            lines.append(f"  error          {error}, {element.ulps:.3g} ULP of {element.dtype}")
        owners = ", ".join(f"{name} {share:.0%}" for name, _, share in shares[:4] if share >= 0.01)
        if owners:
            lines.append(f"  bound made of  {owners}")
    lines += ["", f"  sizes          {sizes(case)}", f"  data           {case.pattern}, seed {case.seed}"]
    if failed < tries:
        lines.append(f"  repeated       failed {failed} of {tries} times: the result is not the same each time")
    lines += [f"  adapter        {subject.adapter}", f"  again with     {replay_command(subject, case)}"]
    return "\n".join(lines)


def describe_error(subject: Subject, case: Case | None, cause: str, error: Exception) -> str:
    """The report of a kernel that could not be run to its end."""
    lines = [f"{cause}: {subject.title}", "", *(f"  {line}" for line in str(error).splitlines())]
    if case is not None:
        lines += ["", f"  sizes          {sizes(case)}", f"  data           {case.pattern}, seed {case.seed}"]
    lines.append(f"  adapter        {subject.adapter}")
    if case is not None:
        lines.append(f"  again with     {replay_command(subject, case)}")
    return "\n".join(lines)
