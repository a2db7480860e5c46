"""Qwen2.5 end to end: the right tokens, their speed, and the dispatches that each takes, counted as issued."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.replay import replay, replayed_clock
from pytest_webgpu.performance.swap import measure_swap
from pytest_webgpu.plugin import state_of
from pytest_webgpu.qwen2 import reference
from pytest_webgpu.qwen2.blame import first_wrong
from pytest_webgpu.qwen2.peer import measure

from .running import ROUNDS, Running, require_swapped

NONE_WRONG = "each dispatch by itself is in its bound: the plan combines them wrongly, or the bounds add up"


@pytest.fixture(scope="session")
def running(webgpu_runner: Runner, model: str, dtype: str, pytestconfig: pytest.Config) -> Any:
    state = state_of(pytestconfig)
    one = Running(state, webgpu_runner, model, dtype, ",".join(state.settings["fusions"]))
    require_swapped(state, one.decode, state.settings["kernel"])
    yield one
    one.generator.close()


def test_tokens_and_logits(running: Running) -> None:
    """Against transformers, by the rule of qwen2.reference."""
    first = running.first
    running.state.progress(f"qwen2: {running.label}: transformers in float64 and in {running.dtype}")
    verdict = reference.judge(running.model, running.prompt, first.tokens, first.logits, running.dtype)
    named = {"model": running.model.name, "dtype": running.dtype, "fusions": running.fusions}
    running.state.record("agreement", **named, ok=verdict.ok, ratio=verdict.ratio, decided=verdict.decided)
    assert verdict.ok, f"{verdict}\n{first_wrong(running.generator, running.prompt) or NONE_WRONG}"


def test_dispatches_are_those_of_the_plan(running: Running) -> None:
    planned, issued = running.dispatches(), running.timed[0].counts_per_token
    assert issued["dispatches"] == planned.total()
    assert issued["passes"] == issued["submits"] == 1
    info, how = running.runner.info, f"a token, fusions {running.fusions}"
    named = {"dtype": running.dtype, "model": running.model.name}
    running.state.counted(info, f"dispatches {how}", planned.total(), planned, **named)
    for what in ("passes", "submits", "bind_groups", "pipelines", "bytes_written", "bytes_read"):
        running.state.counted(info, f"{what.replace('_', ' ')} {how}", math.ceil(issued.get(what, 0)), {}, **named)


@pytest.mark.benchmark(timer=replayed_clock, group="qwen2")
def test_tokens_a_second(timed: None, running: Running, benchmark: Any) -> None:
    """A round is one generation; what is shown is its time a token, without the first."""
    rounds = running.timed
    each = [g.decode_seconds / (len(g.tokens) - 1) for g in rounds]
    assert all(g.tokens == running.first.tokens for g in rounds)
    prefill = statistics.median(g.prefill_seconds for g in rounds)
    middle = statistics.median(g.decode_seconds for g in rounds)
    counts = rounds[0].counts_per_token
    device = running.runner.info
    running.record(
        "pytest-webgpu", prefill, middle, running.new_tokens, fusions=running.fusions, notes=running.generator.notes,
        dispatches_per_token=round(counts["dispatches"]), counts_per_token=counts,
        encode_seconds=statistics.median(g.encode_seconds for g in rounds), adapter=device.adapter,
        backend=device.backend, implementation=device.implementation, version=device.version, software=device.software,
        weight_bytes=running.decode.bytes("weight"),
    )  # fmt: skip
    names = {"dtype": running.dtype, "model": running.model.name}
    info, how = device, f"prompt {len(running.prompt)}, fusions {running.fusions}"
    running.state.measured(info, f"token, {how}", each, min(each), "model", **names)
    first = [g.prefill_seconds for g in rounds]
    running.state.measured(info, f"first token, {how}", first, min(first), "model", **names)
    assert replay(benchmark, each, extra_info={"first_token_seconds": prefill, **names})


def test_swap(timed: None, running: Running) -> None:
    """What the kernels of `--webgpu-kernel` do to tokens a second, by the paired rule."""
    if not running.state.settings["kernel"]:
        pytest.skip("no --webgpu-kernel=FILE was given: there is nothing to compare")
    if running.slow:
        pytest.skip(f"NOT MEASURED: paired rounds of {running.name} take hours on a software adapter")
    running.state.progress(f"qwen2: {running.label}: with the given kernels and without, interleaved")
    found = measure_swap(running.generator, len(running.prompt), running.new_tokens)
    if found is None:
        pytest.skip("NOT MEASURED: the kernels given run in the prompt's plan alone")
    gain = found.gain
    running.state.record(
        "swap", kernels=found.kernels, steps=found.steps, model=running.model.name, dtype=running.dtype,
        before=found.before, ratio=gain.ratio, low=gain.low, high=gain.high, verdict=gain.verdict.value,
        faster=gain.faster,
    )  # fmt: skip
    assert gain.rounds


def test_timeline(timed: None, running: Running) -> None:
    """Of one token, with the memory that it took, in the file of `--webgpu-trace`."""
    if not running.state.settings["trace"]:
        pytest.skip("no --webgpu-trace=FILE was asked for")
    running.state.trace(running.runner, running.name, running.dtype, running.state.kernels)


def test_transformers_beside(timed: None, running: Running, peer: tuple[str, str]) -> None:
    """The same model, dtype and cache by transformers, on the same machine."""
    device, method = peer
    running.state.progress(f"qwen2: {running.label}: transformers on {device}, {method}")
    large_on_cpu = device == "cpu" and running.name != "tiny"
    new_tokens = min(running.new_tokens, 16) if large_on_cpu else running.new_tokens
    theirs = reference.PEER[running.dtype]
    model = reference.transformers_model(running.model, theirs, device, running.dtype)
    speed = measure(model, running.prompt, new_tokens, method, rounds=1 if large_on_cpu else ROUNDS)
    prefill, decode = speed.first_token_ms / 1e3, speed.token_ms / 1e3 * (new_tokens - 1)
    system = f"transformers, {method}" if theirs == running.dtype else f"transformers in {theirs}, {method}"
    running.record(system, prefill, decode, new_tokens, adapter=speed.device)
