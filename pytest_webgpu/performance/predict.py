"""A token's time predicted from parts that were each measured on their own, in three ways, beside what it takes.

`sum` adds the parts up: fixed + b dispatches + bytes / bandwidth + flops / rate. Generation submits one token while the
device runs those before it, so `overlapped` takes the longer of the host's and the device's share. `kernels` does the
same with each kernel's own device time at its shape in the place of bytes and flops.

    python -m pytest_webgpu.performance.predict --models qwen2.5-0.5b --dtypes f32 f16 --out FILE.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from pytest_webgpu.performance.stats import Fit, cost
from pytest_webgpu.qwen2.config import find_model

REPEATS = 256  # dispatches in the pass whose device time is taken
ROUNDS, WARM_UP = 15, 75  # a device that was idle begins at a low clock
KERNEL_SECONDS = 2e-3  # of device time that a pass of one kernel is to last


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
        line, api = (cost((r, n, k, s) for i, r, n, k, s in value["samples"] if i == v) for v in (0, 1))
        phases = (runner.run(Job((MeasurePhases(base.program, 100),))).values[0] or {})["phases"]
        each = {name: median(seconds) for name, seconds in phases.items()}
        submit = sum(each[name] for name in ("encoder", "pass-begin", "pass-end", "finish", "submit"))
        device = _device(runner, base.program) if FEATURE in runner.info.features else None
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))
    if device is None:
        device = max(0.0, line.b.value - api.b.value)
    return Parts(line, api, submit, device, measure_roofline(runner))


def _device(runner: Runner, program: str, repeats: int = REPEATS, warm_up: int = WARM_UP) -> float:
    """Seconds of the device for the program once, in a pass that holds it `repeats` times."""
    value = runner.run(Job((MeasureDeviceTime(program, ROUNDS + warm_up, repeats),)), deadline=300).values[0]
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
    parts: Parts, token: Token, measured: float, tokens: int, kernels: float | None = None
) -> Mapping[str, Prediction]:
    """By way: a prediction of a token of `measured` seconds, in a run of `tokens` with one wait at its end."""
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
        ways["kernels"] = {"wait": wait, **_longer(host, {"kernels": kernels})}
    return {way: Prediction(seconds, measured) for way, seconds in ways.items()}


def predict_rung(
    parts: Parts, of: Ablation, rung: Rung, kernels: float | None = None
) -> tuple[Token, Mapping[str, Prediction]]:
    """What a token of a measured level issues and does, halfway through the run, and its predictions."""
    decoded = of.new_tokens - 1
    token = plan_work.token(rung.plan, of.prompt_tokens + decoded // 2)
    return token, predict(parts, token, median(rung.token), decoded, kernels)


def finding(of: Ablation, rung: Rung, token: Token, ways: Mapping[str, Prediction]) -> dict[str, Any]:
    """As a test run or a file keeps it; seconds."""
    return {
        "model": of.model, "dtype": of.dtype, "level": rung.level.name, "dispatches": token.dispatches,
        "bytes": token.work.bytes, "flops": token.work.flops, "measured": median(rung.token),
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
                of = measure_ablation(
                    runner, find_model(name), dtype, chosen_, prompt_tokens=asked.prompt, new_tokens=asked.new,
                    rounds=asked.rounds, library=library, tuned={} if asked.no_tune else None,
                )  # fmt: skip
                rung = of.rungs[0]
                kernels = kernels_seconds(runner, rung.plan, library.all(), asked.prompt + asked.new // 2)
                token, ways = predict_rung(parts, of, rung, kernels)
                found.append(finding(of, rung, token, ways))
                told = ", ".join(f"{way} {1e3 * p.predicted:.3f} ({p.error:+.1%})" for way, p in ways.items())
                print(f"{name} {dtype} {level}: {token.dispatches} dispatches, {token.work.bytes / 1e6:.0f} MB, "
                      f"{1e3 * median(rung.token):.3f} ms; predicted {told}", flush=True)  # fmt: skip
                if asked.out:
                    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    runner.close()


def _longer(host: float, device: Mapping[str, float]) -> Mapping[str, float]:
    return device if sum(device.values()) >= host else {"host": host}


if __name__ == "__main__":
    main()
