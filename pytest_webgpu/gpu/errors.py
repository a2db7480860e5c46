"""What can go wrong with a job, as one tree. `gpu.job` hands these out too."""

from __future__ import annotations

from typing import Any, ClassVar


class GpuError(Exception):
    """Something that a job asked for could not be done. `command` is its index in the job, where known."""

    kind: ClassVar[str] = "gpu"

    def __init__(self, message: str, command: int | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message, self.command, self.details = message, command, details

    def __reduce__(self) -> tuple[Any, ...]:
        return (_revive, (type(self), self.message, self.command, self.details))


def _revive(cls: type[GpuError], message: str, command: int | None, details: dict[str, Any]) -> GpuError:
    return cls(message, command, **details)


class CompileError(GpuError):
    """The WGSL was refused. details: line, column (1-based, where told), code (the source that was run)."""

    kind = "compile"


class ValidationError(GpuError):
    """The API refused a call."""

    kind = "validation"


class LimitError(GpuError):
    """More than the device's limits allow. details: limit, asked, allowed."""

    kind = "limit"


class MissingFeature(GpuError):
    """details: feature (WebGPU's name)."""

    kind = "feature"


class NoAdapter(GpuError):
    """The adapter, backend or implementation that was asked for is not there. The message lists those that are."""

    kind = "adapter"


class OutOfMemory(GpuError):
    kind = "out-of-memory"


class DeviceLost(GpuError):
    kind = "lost"


class RunnerDied(GpuError):
    """The process or browser that ran the job ended. details: reason. A fresh one serves the next job."""

    kind = "died"


class DeadlineExceeded(GpuError):
    """The job did not end in its time and its process was killed. A fresh one serves the next job."""

    kind = "deadline"


ERRORS: dict[str, type[GpuError]] = {
    e.kind: e for e in (GpuError, CompileError, ValidationError, LimitError, MissingFeature, NoAdapter, OutOfMemory,
                        DeviceLost, RunnerDied, DeadlineExceeded)
}  # fmt: skip
