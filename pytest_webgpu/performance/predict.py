"""A token's time predicted from parts that were each measured on their own, in three ways, beside what it takes.

`sum` adds the parts up: fixed + b dispatches + bytes / bandwidth + flops / rate. Generation submits one token while the
device runs those before it, so `overlapped` takes the longer of the host's and the device's share. `kernels` does the
same with each kernel's own device time at its shape in the place of bytes and flops, and the API's own cost of the
plan's pipelines and bind groups in the place of that of one kernel's.

What the host takes is sampled between the rounds of the tokens that it predicts: a host has more than one speed.

    python -m pytest_webgpu.performance.predict --models qwen2.5-0.5b --dtypes f32 f16 --out FILE.json
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from pytest_webgpu import resources
from pytest_webgpu.compiler.fuse import chosen
from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import Drop, Job, Measure, MeasureDeviceTime, MeasurePhases, Runner, Variant
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.performance import plan_work
from pytest_webgpu.performance.ablation import Ablation, Level, Rung, measure_ablation
from pytest_webgpu.performance.device import FEATURE
from pytest_webgpu.performance.dispatch import prepare
from pytest_webgpu.performance.dispatch_report import PREFIX, Setup
from pytest_webgpu.performance.kernel import time_kernels
from pytest_webgpu.performance.model import CostModel, Prediction, Token
from pytest_webgpu.performance.prepare import prepared
from pytest_webgpu.performance.roofline import Roofline, measure_roofline
from pytest_webgpu.performance.stats import Fit, MeasurementError, fit
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.generate import Generator

REPEATS = 256  # dispatches in the pass whose device time is taken
ROUNDS, WARM_UP = 15, 75  # a device that was idle begins at a low clock
KERNEL_SECONDS = 2e-3  # of device time that a pass of one kernel is to last
COUNTS = (1, 100, 500, 1000)  # dispatches of a sample between rounds
PHASES = 20  # dispatches whose phases are taken between rounds


@dataclass(frozen=True)
class Parts:
    """Of an adapter, in seconds. `line`: T(N) in one pass; `api`: the same with zero workgroups, which is the host's
    share. `submit`: encoder, pass and submit of one dispatch, its own calls aside. `device`: a dispatch's share on the
    device."""

    line: Fit
    api: Fit
    submit: float
    device: float
    roofline: Roofline

    def __str__(self) -> str:
        a, b, roofline = self.line.a.scaled(1e6), self.line.b.scaled(1e6), self.roofline
        return (f"a {a.value:.1f} us, b {b.value:.2f} us [{b.low:.2f}, {b.high:.2f}], of that the API "
                f"{1e6 * self.api.b.value:.2f}, a submit {1e6 * self.submit:.1f}, a dispatch on the device "
                f"{1e6 * self.device:.2f}; {roofline.bandwidth.value / 1e9:.3g} GB/s, "
                f"{roofline.rate.value / 1e9:.3g} GFLOP/s")  # fmt: skip

    def host(self, dispatches: int) -> float:
        return self.submit + self.api.b.value * dispatches

    def sum(self, tokens: int) -> CostModel:
        """The issue's formula: one wait for `tokens` tokens, one submit each."""
        fixed = self.submit + max(0.0, self.line.a.value) / tokens
        return CostModel(fixed, self.line.b.value, self.roofline.bandwidth.value, self.roofline.rate.value)


def measure_parts(runner: Runner, *, rounds: int = ROUNDS, budget: float = 1.5, seed: int = 0) -> Parts:
    """Some ten seconds. MeasurementError where they give no line."""
    base = Setup()
    try:
        prepare(runner, [base])
        variants = tuple(
            Variant(f"{zero}", base.program, "one-pass", rounds=rounds, budget_seconds=budget, zero_workgroups=zero)
            for zero in (False, True)
        )
        value = runner.run(Job((Measure(variants, seed, warm_up_seconds=1.0),)), deadline=60 + 4 * budget).values[0]
        assert value is not None
        line, api = (_line((r, n, k, s) for i, r, n, k, s in value["samples"] if i == v) for v in (0, 1))
        phases = (runner.run(Job((MeasurePhases(base.program, 100),))).values[0] or {})["phases"]
        submit = _submit(phases)
        device = _device(runner, base.program) if FEATURE in runner.info.features else None
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))
    if device is None:
        device = max(0.0, line.b.value - api.b.value)
    return Parts(line, api, submit, device, measure_roofline(runner))


class Beside:
    """Samples of the host's share, and of each plan's device time, between the rounds of measure_ablation: after one
    round in `every`."""

    def __init__(self, runner: Runner, every: int = 1) -> None:
        self.runner, self.every, self.turn = runner, every, 0
        self.samples: defaultdict[str, list[tuple[int, int, int, float]]] = defaultdict(list)
        self.submits: list[float] = []
        self.devices: defaultdict[str, list[float]] = defaultdict(list)
        prepare(runner, [Setup()])

    def take(self, generators: Sequence[Generator]) -> None:
        """A round of each: `between` of measure_ablation."""
        self.turn += 1
        if (self.turn - 1) % self.every:
            return
        program = Setup().program
        variants = [Variant("line", program, "one-pass", COUNTS, rounds=1, budget_seconds=1.0),
                    Variant("api", program, "one-pass", COUNTS, rounds=1, budget_seconds=1.0, zero_workgroups=True)]
        plans = [g.session.program(g.plan(1), "body") for g in generators]
        for index, (generator, body) in enumerate(zip(generators, plans, strict=True)):
            whole = generator.plan(1).dispatches  # in whole tokens, since a plan's dispatches differ
            counts = (1, *(whole * -(-n // whole) for n in COUNTS[2:]))
            variants.append(Variant(
                f"plan {index}", body, "one-pass", counts, rounds=1, budget_seconds=1.0, zero_workgroups=True
            ))  # fmt: skip
        job = Job((Measure(tuple(variants), self.turn, warm_up_seconds=0.0), MeasurePhases(program, PHASES)))
        timed, phases = (value or {} for value in self.runner.run(job, deadline=60 + 2 * len(variants)).values)
        for index, _, n, repeats, seconds in timed["samples"]:
            self.samples[variants[int(index)].label].append((self.turn, int(n), int(repeats), seconds))
        self.submits.append(_submit(phases["phases"]))
        if FEATURE in self.runner.info.features:
            for index, body in enumerate(plans):
                self.devices[f"plan {index}"].append(_device(self.runner, body, 1, warm_up=1, rounds=2))

    def parts(self, before: Parts) -> Parts:
        """The parts, with what the host takes as it was between the rounds. MeasurementError where that is no line."""
        line, api = _line(self.samples["line"]), _line(self.samples["api"])
        device = before.device if FEATURE in self.runner.info.features else max(0.0, line.b.value - api.b.value)
        return replace(before, line=line, api=api, submit=median(self.submits), device=device)

    def api(self, index: int) -> Fit:
        """Of the plan of the generator of that index, with zero workgroups: b is the host's share of a dispatch."""
        return _line(self.samples[f"plan {index}"])

    def device(self, index: int) -> float | None:
        """Seconds that the device takes for a token of that plan, where it can say so."""
        seconds = self.devices.get(f"plan {index}")
        return median(seconds) if seconds else None

    def close(self) -> None:
        self.runner.run(Job((Drop((f"{PREFIX}*",)),)))


def _line(samples: Iterable[tuple[int, int, int, float]]) -> Fit:
    """A few rounds may be lost in the noise (of two slopes so small, one is the host's); not their median."""
    line = fit(samples)
    if line.b.value <= 0:
        raise MeasurementError("a dispatch shows no cost: lost in the noise")
    return line


def _submit(phases: Mapping[str, Sequence[float]]) -> float:
    return sum(median(phases[name]) for name in ("encoder", "pass-begin", "pass-end", "finish", "submit"))


def _device(
    runner: Runner, program: str, repeats: int = REPEATS, warm_up: int = WARM_UP, rounds: int = ROUNDS
) -> float:
    """Seconds of the device for the program once, in a pass that holds it `repeats` times."""
    value = runner.run(Job((MeasureDeviceTime(program, rounds + warm_up, repeats),)), deadline=300).values[0]
    assert value is not None
    return float(median(one for (one,) in value["seconds"][warm_up:]))


def kernels_seconds(runner: Runner, plan: Plan, kernels: Sequence[KernelSource], start: int) -> float:
    """Seconds of all steps of a plan from position `start` on: each kernel at its shape, timed by itself, weights in
    turn. By timestamps; without them by the slope, which holds the host's share too.

    ValueError for a plan with a kernel that is not among `kernels`.
    """
    counted = plan_work.candidates(plan, kernels, start)
    if sum(count for _, count in counted) != len(plan.steps):
        raise ValueError("the plan runs kernels that are not among those given")
    candidates = [candidate for candidate, _ in counted]
    if FEATURE not in runner.info.features:
        times = time_kernels(runner, candidates, rounds=10, budget=1.0)
        return sum(times.measured[c.key].time.value * count for c, count in counted)
    total = 0.0
    for candidate, count in counted:
        with prepared(runner, [candidate], seed=0) as (made,):
            once = _device(runner, made.program, 1, warm_up=1)
            repeats = max(1, min(REPEATS, round(KERNEL_SECONDS / max(once, 1e-6))))
            total += count * _device(runner, made.program, repeats) / made.copies
    return total


def predict(
    parts: Parts, token: Token, measured: float, tokens: int, kernels: float | None = None, api: Fit | None = None
) -> Mapping[str, Prediction]:
    """By way: a prediction of a token of `measured` seconds, in a run of `tokens` with one wait at its end.

    `kernels`: seconds of the plan's kernels on the device; `api`: the line of the plan with zero workgroups.
    """
    wait = max(0.0, parts.line.a.value) / tokens
    host = parts.host(token.dispatches)
    work = {
        "bytes": token.work.bytes / parts.roofline.bandwidth.value,
        "flops": token.work.flops / parts.roofline.rate.value,
    }
    device = {"dispatches on the device": parts.device * token.dispatches, **work}
    ways = {
        "sum": parts.sum(tokens).parts(token),
        "overlapped": {"wait": wait, **_longer(host, device)},
    }
    if kernels is not None:
        own = host if api is None else parts.submit + api.b.value * token.dispatches
        ways["kernels"] = {"wait": wait, **_longer(own, {"kernels": kernels})}
    return {way: Prediction(seconds, measured) for way, seconds in ways.items()}


def predict_rung(
    parts: Parts, of: Ablation, rung: Rung, kernels: float | None = None, api: Fit | None = None
) -> tuple[Token, Mapping[str, Prediction]]:
    """What a token of a measured level issues and does, halfway through the run, and its predictions."""
    decoded = of.new_tokens - 1
    token = plan_work.token(rung.plan, of.prompt_tokens + decoded // 2)
    return token, predict(parts, token, median(rung.token), decoded, kernels, api)


def finding(
    of: Ablation, rung: Rung, token: Token, ways: Mapping[str, Prediction], device: float | None = None
) -> dict[str, Any]:
    """As a test run or a file keeps it; seconds. `host` and `device`, measured of the token itself, say which of the
    two a prediction misses."""
    return {
        "model": of.model, "dtype": of.dtype, "level": rung.level.name, "dispatches": token.dispatches,
        "bytes": token.work.bytes, "flops": token.work.flops, "measured": median(rung.token),
        "host": median(rung.host), "device": device,
        "ways": {way: {"predicted": p.predicted, "error": p.error, "parts": dict(p.parts)} for way, p in ways.items()},
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["qwen2.5-0.5b", "qwen2.5-1.5b"])
    parser.add_argument("--dtypes", nargs="+", default=["f32", "f16"])
    parser.add_argument("--levels", nargs="+", default=["none", "all"], help="fusions, each as --webgpu-fusions")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--implementation", default="wgpu-native")
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--new", type=int, default=65)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--no-tune", action="store_true", help="kernels with their defaults, without the autotuner")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    runner = open_runner(choose(asked.backend, asked.implementation), limits="max")
    parts = measure_parts(runner)
    print(f"{runner.info.adapter}, {runner.info.backend}: {parts}")
    library, found = Library(resources.folder("wgsl")), []
    for name in asked.models:
        for dtype in asked.dtypes:
            for level in asked.levels:
                chosen_ = [Level(level, tuple(sorted(chosen(level))))]
                beside = Beside(runner)
                of = measure_ablation(
                    runner, find_model(name), dtype, chosen_, prompt_tokens=asked.prompt, new_tokens=asked.new,
                    rounds=asked.rounds, library=library, tuned={} if asked.no_tune else None, between=beside.take,
                )  # fmt: skip
                beside.close()
                rung, then = of.rungs[0], beside.parts(parts)
                kernels = kernels_seconds(runner, rung.plan, library.all(), asked.prompt + asked.new // 2)
                token, ways = predict_rung(then, of, rung, kernels, beside.api(0))
                found.append({**finding(of, rung, token, ways, beside.device(0)), "host parts": str(then)})
                told = ", ".join(f"{way} {1e3 * p.predicted:.3f} ({p.error:+.1%})" for way, p in ways.items())
                print(f"{name} {dtype} {level}: {token.dispatches} dispatches, {token.work.bytes / 1e6:.0f} MB, "
                      f"{1e3 * median(rung.token):.3f} ms (host {1e3 * median(rung.host):.3f}, device "
                      f"{_milliseconds(beside.device(0))}); predicted {told}; {then}; the plan's own API cost "
                      f"{1e6 * beside.api(0).b.value:.2f} us a dispatch", flush=True)  # fmt: skip
                if asked.out:
                    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    runner.close()


def _milliseconds(seconds: float | None) -> str:
    return "not known" if seconds is None else f"{1e3 * seconds:.3f}"


def _longer(host: float, device: Mapping[str, float]) -> Mapping[str, float]:
    return device if sum(device.values()) >= host else {"host": host}


if __name__ == "__main__":
    main()
