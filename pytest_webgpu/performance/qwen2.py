"""Qwen2.5 on an adapter beside torch on the same machine: the whole table of figures, from one command.

    python -m pytest_webgpu.performance.qwen2 --models qwen2.5-0.5b --dtypes f32 f16 --out FILE.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch

from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import Job, MeasureDeviceTime, MeasureMemory, MissingFeature, Runner
from pytest_webgpu.performance.roofline import measure_roofline
from pytest_webgpu.qwen2 import peer, reference
from pytest_webgpu.qwen2.config import Model, find_model
from pytest_webgpu.qwen2.errors import NoModel
from pytest_webgpu.qwen2.generate import DTYPES, Generator

ROUNDS = 5
LONG_PROMPT = 512


def measure_webgpu(
    runner: Runner, model: Model, dtype: str, prompt: int, new: int, fusions: str, times: int = ROUNDS
) -> dict[str, Any]:
    """Decode after a short prompt, time to first token of a long one, and where a token's time goes."""
    generator = Generator(model, runner, dtype, fusions, capacity=max(prompt + new, LONG_PROMPT + 16))
    steps = sorted({c.length for c in generator.chunked(prompt)} | {1})
    before = _buffers(runner)["bytes"]
    try:
        seconds: dict[str, float] = {}
        with _timed(seconds, "plan"):
            plans = [generator.plan(n) for n in steps]
        spent = dict(generator.spent)
        with _timed(seconds, "load"):
            generator.session.load(*plans)
        with _timed(seconds, "first_generation"):
            first = generator.generate(model.drawn_prompt(prompt), new, logits=True)
        held = _buffers(runner)["peak_bytes"] - before
        with _timed(seconds, "cached_plan"):
            again = Generator(model, runner, dtype, fusions, generator.capacity)
            for n in steps:
                again.plan(n)
        rounds = [generator.generate(model.drawn_prompt(prompt), new) for _ in range(times)]
        long = [generator.generate(model.drawn_prompt(LONG_PROMPT), 1).prefill_seconds for _ in range(times + 1)][1:]
        plan = generator.plan(1)
        program = generator.session.program(plan, "body")
        return {
            **{f"{name}_seconds": value for name, value in seconds.items()},
            "plan_parts_seconds": spent,
            "token_ms": 1e3 * statistics.median(r.decode_seconds for r in rounds) / (new - 1),
            "host_ms": 1e3 * statistics.median(r.encode_seconds for r in rounds) / (new - 1),
            "device_ms": _device_ms(runner, program),
            "first_token_ms": 1e3 * statistics.median(r.prefill_seconds for r in rounds),
            f"first_token_{LONG_PROMPT}_ms": 1e3 * statistics.median(long),
            "counts_per_token": rounds[0].counts_per_token,
            "by_op_us": _by_op(runner, plan, program),
            "weight_bytes": plan.bytes("weight"),
            "cache_bytes": plan.bytes("cache"),
            "buffer_bytes_at_most": held,
            "buffers_over_weights_and_cache": held / plan.bytes("weight", "cache"),
            "tokens": first.tokens,
            "same_tokens_each_round": all(r.tokens == first.tokens for r in rounds),
            "logits": first.logits,
            "kernels": sorted({f"{s.op} {dict(s.dims)}: {s.kernel} {dict(s.tune)}" for s in plan.steps}),
            "notes": generator.notes,
        }
    finally:
        generator.close()


def _buffers(runner: Runner) -> dict[str, Any]:
    value = runner.run(Job((MeasureMemory(),))).values[0]
    assert value is not None
    return value


@contextlib.contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - began


def _device_seconds(runner: Runner, program: str, repeats: int | None = None) -> list[list[float]] | None:
    """A list of figures a round, as MeasureDeviceTime gives them; None where the device has no timestamps."""
    try:
        value = runner.run(Job((MeasureDeviceTime(program, repeats=repeats),))).values[0] or {}
    except MissingFeature:
        return None
    rounds: list[list[float]] = value["seconds"]
    return rounds


def _device_ms(runner: Runner, program: str) -> float | None:
    rounds = _device_seconds(runner, program, repeats=8)
    return None if rounds is None else 1e3 * statistics.median(one for (one,) in rounds)


def _by_op(runner: Runner, plan: Plan, program: str) -> dict[str, float] | None:
    """Microseconds of device time a token by op and shape; each dispatch in a pass of its own, so their sum is more."""
    rounds = _device_seconds(runner, program)
    if rounds is None:
        return None
    labels = [f"{s.op} {_shape(s.dims)}" for s in plan.steps for _ in s.passes]
    totals: dict[str, float] = {}
    for label, times in zip(labels, zip(*rounds, strict=True), strict=True):
        totals[label] = totals.get(label, 0.0) + 1e6 * statistics.median(times)
    return {label: round(us, 2) for label, us in sorted(totals.items(), key=lambda item: -item[1])}


def _shape(dims: Any) -> str:
    return " ".join(f"{k}={v}" for k, v in dims.items())


def measure_cuda(
    model: Model, dtype: str, prompt: int, new: int, methods: Sequence[str], rounds: int
) -> Iterator[dict[str, Any]]:
    """transformers on CUDA with the same weights: eager, and compiled with a static cache and CUDA graphs.

    Beside q4, of which it has none, it runs in f16.
    """
    if not methods:
        return
    bare = reference.transformers_model(model, reference.PEER[dtype], "cuda", dtype)
    for method in methods:
        speed = peer.measure(bare, model.drawn_prompt(prompt), new, method, rounds)
        long = peer.measure(bare, model.drawn_prompt(LONG_PROMPT), 1, method, rounds)
        yield asdict(speed) | {f"first_token_{LONG_PROMPT}_ms": long.first_token_ms}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["qwen2.5-0.5b", "qwen2.5-1.5b"])
    parser.add_argument("--dtypes", nargs="+", default=["f32", "f16"], choices=DTYPES)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="generations, of which the median is taken")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--implementation", default="wgpu-native")
    parser.add_argument("--adapter")
    parser.add_argument("--fusions", default="all")
    parser.add_argument("--cuda", nargs="*", default=["eager", "compiled"], help="torch methods, or none")
    parser.add_argument("--no-judge", action="store_true", help="leave out the comparison of tokens and logits")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    if asked.cuda and not torch.cuda.is_available():
        print("no CUDA here: its columns are left out")
        asked.cuda = []
    try:
        models = [find_model(name) for name in asked.models]
    except NoModel as error:
        parser.error(str(error))
    adapter = choose(asked.backend, asked.implementation, asked.adapter)
    runner = open_runner(adapter, limits="max")
    info = runner.info
    copy = measure_roofline(runner).bandwidth.value
    report: dict[str, Any] = {
        "date": date.today().isoformat(),
        "adapter": {n: getattr(info, n) for n in ("implementation", "version", "backend", "adapter", "driver", "os")},
        "prompt_tokens": asked.prompt, "new_tokens": asked.new, "copy_bytes_per_second": copy, "rows": [],
    }  # fmt: skip
    print(f"{info.adapter} on {info.backend}, {info.implementation} {info.version}; copy {copy / 1e9:.0f} GB/s")
    for model in models:
        for dtype in asked.dtypes:
            row = {"model": model.name, "dtype": dtype, "fusions": asked.fusions}
            ours = measure_webgpu(runner, model, dtype, asked.prompt, asked.new, asked.fusions, asked.rounds)
            logits = ours.pop("logits")
            row["webgpu"] = ours | {"share_of_copy": ours["weight_bytes"] / (ours["token_ms"] * 1e-3) / copy}
            print(f"{model.name} {dtype} webgpu: {_brief(row['webgpu'])}", flush=True)
            if not asked.no_judge:
                device = "cuda" if torch.cuda.is_available() else "cpu"
                said = ours["tokens"]
                verdict = reference.judge(model, model.drawn_prompt(asked.prompt), said, logits, dtype, device)
                row["verdict"] = {"ok": verdict.ok, "text": str(verdict)}
                print(f"  {verdict}", flush=True)
            for speed in measure_cuda(model, dtype, asked.prompt, asked.new, asked.cuda, asked.rounds):
                row[f"cuda_{speed['method']}"] = speed
                print(f"  {beside(speed, ours, dtype)}", flush=True)
            report["rows"].append(row)
            if asked.out:
                asked.out.write_text(json.dumps(report, indent=1) + "\n")
    runner.close()
    return 0


def beside(speed: dict[str, Any], ours: dict[str, Any], dtype: str) -> str:
    """The line of a torch method; what it computes in is named where it has no such dtype as ours."""
    kind = "" if reference.PEER[dtype] == dtype else f" in {reference.PEER[dtype]}, having no {dtype}"
    ratio = speed["token_ms"] / ours["token_ms"]
    return f"cuda {speed['method']}{kind}: {_brief(speed)}; webgpu is {ratio:.2f} x as fast"


def _brief(row: dict[str, Any]) -> str:
    shown = [f"{k} {v:.3f}" for k, v in row.items() if isinstance(v, float)]
    if "weight_bytes" in row:
        shown.append(f"weights {row['weight_bytes'] / 1e6:.1f} MB")
    return ", ".join([f"{1e3 / row['token_ms']:.1f} tokens/s", *shown])


if __name__ == "__main__":
    sys.exit(main())
