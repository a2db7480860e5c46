"""What a dispatch costs on a device: T(N) = a + b N by mode, and everything that figure must not be mixed up with.

The kernel adds one to one element, so what is timed is the dispatch. Factors vary one at a time from the base (one
pass, f32, each dispatch depending on the one before, bind groups made ahead).
"""

from __future__ import annotations

import dataclasses
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pytest_webgpu.gpu.job import (
    MODES,
    Bound,
    Command,
    DeviceInfo,
    Dispatch,
    Drop,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    Measure,
    MeasureCreation,
    MeasurePhases,
    MeasureTransfers,
    MeasureWaits,
    ReadBuffer,
    Runner,
    RunProgram,
    Slot,
    Variant,
)
from pytest_webgpu.performance.clocks import clocks
from pytest_webgpu.performance.device import device_time
from pytest_webgpu.performance.dispatch_report import (
    BASE,
    NAIVE_N,
    PREFIX,
    DispatchReport,
    Figure,
    Setup,
    Transfer,
    Unpolled,
    artefacts,
)
from pytest_webgpu.performance.known_cost import COUNTS, ROUNDS, SERIAL, Moved, measure_known_cost
from pytest_webgpu.performance.stats import MeasurementError, cost, estimate

INDEPENDENT = 64  # buffers that independent dispatches take turns on
CODE = """@group(0) @binding(0) var<storage, read_write> x: array<{dtype}>;
@compute @workgroup_size(1) fn main() {{ x[0] = x[0] + {dtype}(1); }}
"""
DTYPES = {"f32": "<f", "f16": "<e", "u32": "<I"}
WAIT_EACH_COUNTS = (1, 2, 5, 10, 20)


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds and budget (seconds) a variant, warm-up, and what is left out, in words."""

    rounds: int
    budget: float
    warm_up: float
    transfer_budget: float
    left_out: tuple[str, ...] = ()


QUICK = Effort(20, 1.8, 1.5, 0.4, ("factors in modes other than one pass (scripts/evidence dispatch has them)",))
FULL = Effort(30, 30.0, 3.0, 3.0)


def setups(info: DeviceInfo, quick: bool) -> list[Setup]:
    """The base in every mode, then one factor at a time: in one pass, and in the other modes when not `quick`."""
    dtypes = ["u32"] + (["f16"] if "shader-f16" in info.features else [])
    factors: list[dict[str, Any]] = [{"dependent": False}, {"fresh_bind_groups": True}]
    factors += [{"dtype": dtype} for dtype in dtypes]
    chosen = [Setup(mode) for mode in MODES]
    chosen += [Setup(mode, **f) for f in factors for mode in (MODES[:1] if quick else MODES)]
    chosen += [Setup(mode, zero_workgroups=True) for mode in MODES if mode != "wait-each"]
    return chosen


def measure_dispatch(
    runner: Runner,
    *,
    quick: bool = True,
    effort: Effort | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> DispatchReport:
    """Measures everything of a DispatchReport; at most 30 s when `quick`. `progress` is told each step.

    `quick` chooses the setups and, unless given, the `effort`. A setup whose samples give no line is not among the
    figures, and `cut` says so; for the base, and when dispatches do not do what they say, MeasurementError is raised.
    """
    began = time.monotonic()
    effort = effort or (QUICK if quick else FULL)
    chosen, before = setups(runner.info, quick), clocks(runner.info)
    try:
        progress("the clock and an empty wait")
        waits = _value(runner.run(Job((MeasureWaits(),))).values[0])
        prepare(runner, chosen)
        progress(f"{len(chosen)} variants, interleaved")
        least = max(1e-3, 100 * waits["clock_step_seconds"])
        figures, cut, plain = _lines(runner, chosen, effort, least, seed)
        progress("phases of a dispatch, creation, transfers")
        rest = (MeasurePhases(BASE.program), MeasureCreation(BASE.program),
                transfers := MeasureTransfers(budget_seconds=effort.transfer_budget))  # fmt: skip
        phases, creation, moved = (_value(v) for v in runner.run(Job(rest), deadline=120).values)
        device = device_time(runner, Setup(dependent=False).program)
        progress("does b find a cost that is put there?")
        found = _known_cost(runner, quick, seed)
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))
    report = DispatchReport(
        info=runner.info,
        fence=waits["fence"],
        clock_step=waits["clock_step_seconds"],
        empty_wait=estimate(waits["empty_wait_seconds"]),
        read_back=estimate(waits["read_seconds"]),
        figures=figures,
        phases={name: estimate(seconds) for name, seconds in phases["phases"].items()},
        creation={name: estimate(seconds) for name, seconds in creation["seconds"].items()},
        transfers=tuple(
            Transfer(size, estimate(write), estimate(read))
            for size, write, read in zip(transfers.sizes, moved["write_seconds"], moved["read_seconds"], strict=True)
        ),
        device_time=device,
        known=found,
        unpolled=_unpolled(waits, chosen, plain),
        clocks=(before, clocks(runner.info)),
        cut=(*cut, *effort.left_out),
        warnings=(),
        seconds=time.monotonic() - began,
    )
    return dataclasses.replace(report, warnings=tuple(artefacts(report)))


def prepare(runner: Runner, chosen: list[Setup]) -> None:
    """Makes the programs, and checks that dispatches are done: each adds one to its element."""
    issued = 5
    for setup in {s.program: s for s in chosen}.values():
        name, buffers = setup.program, 1 if setup.dependent else INDEPENDENT
        commands: list[Command] = [MakeBuffer(f"{name}.{i}", 4) for i in range(buffers)]
        enable = ("shader-f16",) if setup.dtype == "f16" else ()
        commands.append(
            MakePipeline(name, CODE.format(dtype=setup.dtype), "main", (Slot(0, 0, "storage"),), {}, enable)
        )
        dispatches = (Dispatch(name, (Bound(0, 0, f"{name}.{i}"),), (1, 1, 1)) for i in range(buffers))
        commands += [MakeProgram(name, tuple(dispatches)), RunProgram(name, issued), ReadBuffer(f"{name}.0")]
        counted = struct.unpack_from(DTYPES[setup.dtype], runner.run(Job(tuple(commands))).blob(-1))[0]
        if counted != issued:
            raise MeasurementError(f"{issued} dispatches of {setup.dtype} added {counted} and not {issued}: "
                                   f"{runner.info.adapter} does not do what it is timed for")  # fmt: skip


def _lines(
    runner: Runner, chosen: list[Setup], effort: Effort, least: float, seed: int
) -> tuple[dict[str, Figure], list[str], list[Sequence[float]]]:
    variants = []
    for s in chosen:
        waiting = s.mode == "wait-each"
        variants.append(Variant(
            s.label, s.program, s.mode, WAIT_EACH_COUNTS if waiting else Variant.counts, s.fresh_bind_groups,
            s.zero_workgroups, effort.rounds // 2 if waiting else effort.rounds, effort.budget,
        ))  # fmt: skip
    command = Measure(tuple(variants), seed, least, effort.warm_up)
    deadline = 2 * effort.budget * len(variants) + effort.warm_up + 60
    value = _value(runner.run(Job((command,)), deadline=deadline).values[0])
    samples = value["samples"]
    figures, cut = {}, []
    for index, (setup, variant) in enumerate(zip(chosen, variants, strict=True)):
        try:
            line = cost((r, n, k, s) for i, r, n, k, s in samples if i == index)
        except MeasurementError as error:
            if setup == BASE:
                raise
            cut.append(f"{setup.label}: not measured: {error}")
            continue
        figures[setup.label] = Figure(setup, line)
        rounds = len(line.b.per_round)
        if line.counts[-1] < variant.counts[-1] or rounds < variant.rounds:
            cut.append(f"{setup.label}: N up to {line.counts[-1]} of {variant.counts[-1]}, {rounds} of "
                       f"{variant.rounds} rounds in {effort.budget} s")  # fmt: skip
    return figures, cut, value.get("plain_samples", [])


def _known_cost(runner: Runner, quick: bool, seed: int) -> tuple[Moved, ...]:
    """The base in the modes in which a host kept busy delays the device too; in full, without its work as well."""
    chosen = [Setup(mode, zero_workgroups=zero) for zero in ((False,) if quick else (False, True)) for mode in SERIAL]
    variants = [
        Variant(s.label, s.program, s.mode, COUNTS, False, s.zero_workgroups, ROUNDS, budget_seconds=2.0)
        for s in chosen
    ]
    return tuple(measure_known_cost(runner, variants, seed=seed))


def _unpolled(waits: Mapping[str, Any], chosen: Sequence[Setup], plain: Sequence[Sequence[float]]) -> Unpolled | None:
    if "plain_empty_wait_seconds" not in waits:
        return None
    total_over_n = {}
    for index, setup in enumerate(chosen):
        counts = [n for i, _, n, _, _ in plain if i == index and n <= NAIVE_N]
        if counts:
            n = max(counts)
            total_over_n[setup.label] = median(s for i, _, m, _, s in plain if (i, m) == (index, n)) / n
    return Unpolled(estimate(waits["plain_empty_wait_seconds"]), total_over_n)


def _value(value: dict[str, Any] | None) -> dict[str, Any]:
    assert value is not None
    return value
