"""The time of a token from its parts: t = fixed + b dispatches + bytes / bandwidth + flops / rate.

Every coefficient is measured on its own (the dispatch suite gives fixed and b, the roofline the rest), nothing is
fitted to the total, so the error of a prediction says what the parts leave out. Given the published figures of a
GPU that is not here, the same formula says what a model would do there, and which fusion would pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.performance.dispatch_report import DispatchReport
from pytest_webgpu.performance.roofline import Roofline
from pytest_webgpu.performance.work import Work

# GPU: bytes a second of memory, f32 flops a second. The vendors' data sheets: RTX 5090, 512 bit GDDR7 at 28 Gbit/s and
# 104.8 TFLOP/s; M2, 100 GB/s and 3.6 TFLOP/s (10 cores).
DATA_SHEETS = {"NVIDIA RTX 5090": (1.792e12, 104.8e12), "Apple M2": (100e9, 3.6e12)}


@dataclass(frozen=True)
class Token:
    """What one token (or one prefill) issues and does."""

    dispatches: int
    work: Work


@dataclass(frozen=True)
class CostModel:
    """`fixed` and `per_dispatch` in seconds, `bandwidth` in bytes a second, `rate` in flops a second."""

    fixed: float
    per_dispatch: float
    bandwidth: float
    rate: float
    source: str = ""

    def parts(self, token: Token) -> dict[str, float]:
        """Seconds by part."""
        return {
            "fixed": self.fixed,
            "dispatches": self.per_dispatch * token.dispatches,
            "bytes": token.work.bytes / self.bandwidth,
            "flops": token.work.flops / self.rate,
        }

    def seconds(self, token: Token) -> float:
        return sum(self.parts(token).values())

    def tokens_per_second(self, token: Token) -> float:
        return 1 / self.seconds(token)

    def gains(self, plans: Mapping[str, Token]) -> dict[str, float]:
        """By plan: how many times faster it is than the first (the unfused one)."""
        first = self.seconds(next(iter(plans.values())))
        return {name: first / self.seconds(token) for name, token in plans.items()}

    def rows_where_kernels_outweigh(self, token_of: Callable[[int], Token], most: int = 4096) -> int | None:
        """The least batch (rows) whose bytes and flops take longer than its dispatches; None where none up to `most`.

        `token_of(rows)` must not do less for more rows.
        """

        def outweighs(rows: int) -> bool:
            parts = self.parts(token_of(rows))
            return parts["bytes"] + parts["flops"] >= parts["dispatches"]

        if not outweighs(most):
            return None
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if outweighs(middle) else (middle + 1, high)
        return low


@dataclass(frozen=True)
class Prediction:
    """Seconds predicted, by part, and measured (each > 0)."""

    parts: Mapping[str, float]
    measured: float

    @property
    def predicted(self) -> float:
        return sum(self.parts.values())

    @property
    def error(self) -> float:
        """Predicted over measured, less one: 0.1 is a token predicted 10 % slower than it is."""
        return self.predicted / self.measured - 1


def from_parts(report: DispatchReport, roofline: Roofline) -> CostModel:
    """The model of the adapter at hand: one pass and one wait a token. All from one run, so that clocks agree."""
    info = report.info
    return CostModel(
        max(0.0, report.a.value), report.b.value, roofline.bandwidth.value, roofline.rate.value,
        f"measured on {info.adapter}, {info.backend}, {info.implementation} {info.version}",
    )  # fmt: skip


def by_kernels(fixed: float, seconds: Iterable[float]) -> dict[str, float]:
    """The other prediction: each step's own time at its shape (`kernel.time_kernels`, its dispatch included)."""
    return {"fixed": fixed, "kernels": sum(seconds)}


def published(data: Mapping[str, Any]) -> dict[str, CostModel]:
    """Models of the paper's GPUs whose data sheets are known, by implementation and adapter.

    `data`: baselines/published/arxiv-2604.02344.json. Its sequential figures hold a hundredth of a wait, and data
    sheets promise what no kernel reaches, so the first is high and the second low: estimates, and named as such.
    """
    models = {}
    for row in data["dispatch_us"]["rows"]:
        if row["adapter"] in DATA_SHEETS and "artefact" not in row:
            bandwidth, rate = DATA_SHEETS[row["adapter"]]
            fixed, each = (1e-6 * row[k] for k in ("single", "sequential"))
            name = f"{row['implementation']}, {row['backend']}, {row['adapter']}"
            source = f"{data['source'].split(',')[0]}, dispatches; data sheet, bandwidth and rate"
            models[name] = CostModel(max(0.0, fixed - each), each, bandwidth, rate, source)
    return models
