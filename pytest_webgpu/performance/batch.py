"""From which batch on kernels outweigh dispatches: rows at once through the same plan, predicted and measured.

A step of more rows issues as many dispatches and does more work in each. What is left of its time without b for each
dispatch is the kernels'.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu.job import Job, Runner, RunProgram, WriteBuffer
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.performance import plan_work
from pytest_webgpu.performance.model import CostModel, Token
from pytest_webgpu.performance.predict import Parts
from pytest_webgpu.performance.work import Work
from pytest_webgpu.qwen2.config import Model
from pytest_webgpu.qwen2.generate import Generator

ROWS = (1, 4, 16, 64, 256)
STEPS = 8  # a sample, one wait at its end
SAMPLES = 5


@dataclass(frozen=True)
class Step:
    """One step of `rows` tokens: seconds of it, and of its dispatches alone at b each."""

    rows: int
    dispatches: int
    seconds: float
    of_dispatches: float
    predicted: float

    @property
    def outweighed(self) -> bool:
        """The kernels take at least as long as the dispatches."""
        return self.seconds - self.of_dispatches >= self.of_dispatches


@dataclass(frozen=True)
class Batch:
    """`predicted`: the least number of rows by the cost model; None beyond 4096."""

    model: str
    dtype: str
    steps: tuple[Step, ...]
    predicted: int | None

    @property
    def measured(self) -> int | None:
        """The least measured number of rows whose kernels outweigh its dispatches."""
        return next((s.rows for s in self.steps if s.outweighed), None)


def measure_batch(
    runner: Runner,
    model: Model,
    dtype: str,
    parts: Parts,
    *,
    rows: Sequence[int] = ROWS,
    fusions: str = "all",
    library: Library | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Batch:
    """Times a step of each of `rows` (ascending, from 1 on). Raises as generation does."""
    capacity = max(rows) + STEPS * (SAMPLES + 2)
    generator = Generator(model, runner, dtype, fusions, capacity, library=library, chunks=tuple(rows[1:]))
    cost = parts.sum(STEPS)
    try:
        steps, tokens = [], {}
        for count in rows:
            progress(f"{model.name} {dtype}: a step of {count} rows")
            plan = generator.plan(count)
            generator.session.load(plan)
            tokens[count] = token = plan_work.token(plan, 0)
            seconds = _seconds(runner, generator, plan)
            steps.append(Step(count, token.dispatches, seconds, cost.per_dispatch * token.dispatches,
                              cost.seconds(token)))  # fmt: skip
    finally:
        generator.close()
    return Batch(model.name, dtype, tuple(steps), crossing(cost, tokens[rows[0]], tokens[rows[-1]], rows[-1]))


def crossing(cost: CostModel, one: Token, many: Token, rows: int) -> int | None:
    """The least number of rows at which, by the model, bytes and flops outweigh dispatches.

    `one` and `many` are steps of 1 and of `rows`; between and beyond them work grows by the row.
    """

    def token(count: int) -> Token:
        def between(low: int, high: int) -> int:
            return round(low + (high - low) * (count - 1) / (rows - 1))

        work = Work(between(one.work.bytes, many.work.bytes), between(one.work.flops, many.work.flops))
        return Token(many.dispatches if count > 1 else one.dispatches, work)

    return cost.rows_where_kernels_outweigh(token)


def _seconds(runner: Runner, generator: Generator, plan: Plan) -> float:
    """A step, the median of some samples; the position is where it was before each of them."""
    program, position = generator.session.program(plan, "body"), generator.session.name("position")
    start = WriteBuffer(position, struct.pack("<i", 0))
    run = RunProgram(program, STEPS, wait=True)
    taken = []
    for _ in range(SAMPLES + 1):
        value = runner.run(Job((start, run)), deadline=600).values[-1]
        assert value is not None
        taken.append(float(value["seconds"]) / STEPS)
    return median(taken[1:])
