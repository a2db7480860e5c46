"""How much to check, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_webgpu.conformance.inputs import Case
from pytest_webgpu.conformance.running_error import Calibration

if TYPE_CHECKING:
    import hypothesis

PROFILES = {"webgpu-quick": 4, "webgpu": 16, "webgpu-thorough": 160}
"""Hypothesis profiles, and how many batches of 1 to BATCH cases each draws."""
BATCH = 8


@dataclass(frozen=True)
class Settings:
    """How much to check.

    `max_examples`: batches that Hypothesis draws; None takes the loaded `webgpu...` profile. `reference`: "cpu" or
    "cuda". `replay`: this one case and no other. `calibration`: None measures the adapter's builtins once.
    `deadline`: seconds that a job may take, and that each pipeline in it may take to compile. `failures`: a folder
    in which a failure leaves what reproduces it without this project. `options`: of the run, for the command that
    shows a failure again.
    """

    max_examples: int | None = None
    derandomize: bool = True
    reference: str = "cpu"
    replay: Case | None = None
    calibration: Calibration | None = None
    deadline: float = 20.0
    failures: Path | None = None
    options: tuple[str, ...] = ()


@dataclass
class Report:
    """A kernel that is right: how much was checked, and how much of its bounds it uses (`headroom`, 0 to 1).

    `unspecified`: elements that could not be compared; `unspecified_share`: their share in a case, on average.
    `loosest`: the largest median bound over mean size of an output, of data whose elements are independent.
    """

    op: str
    kernel: str
    adapter: str
    cases: int = 0
    elements: int = 0
    unspecified: int = 0
    unspecified_share: float = 0.0
    headroom: float = 0.0
    loosest: float = 0.0
    notes: list[str] = field(default_factory=list)


def register_profiles() -> None:
    """Makes the profiles known to Hypothesis, for `--hypothesis-profile`."""
    import hypothesis

    for name, examples in PROFILES.items():
        hypothesis.settings.register_profile(
            name, max_examples=examples, deadline=None, derandomize=True, database=None, print_blob=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip


def hypothesis_settings(asked: Settings) -> hypothesis.settings:
    """Hypothesis' own settings: of the loaded profile where that is one of ours, else of `webgpu`."""
    import hypothesis

    register_profiles()
    default = hypothesis.settings()
    chosen = default if default.max_examples in PROFILES.values() else hypothesis.settings.get_profile("webgpu")
    return hypothesis.settings(
        chosen, max_examples=asked.max_examples or chosen.max_examples, deadline=None, database=None,
        derandomize=asked.derandomize, report_multiple_bugs=False, print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip


def is_quick(asked: Settings) -> bool:
    """Whether no more is asked for than `webgpu-quick` gives; inside a test that Hypothesis drives it always is."""
    import hypothesis

    if hypothesis.currently_in_test_context():
        return True
    return hypothesis_settings(asked).max_examples <= PROFILES["webgpu-quick"]
