"""Prompts of many lengths, each with 128 tokens after it, and a cache of 4,096 positions filled to its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.plugin import state_of
from pytest_webgpu.qwen2 import reference
from pytest_webgpu.qwen2.blame import first_wrong
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.generate import Generator

NEW_TOKENS, CAPACITY = 128, 4096
LENGTHS = (1, 2, 3, 5, 8, 13, 15, 16, 17, 31, 33, 64, 100, 127, 128, 129, 255, 257, 511, 600)  # round the chunks' own


@pytest.fixture(scope="session")
def generator(webgpu_runner: Runner, model: str, dtype: str, pytestconfig: pytest.Config) -> Iterator[Generator]:
    state = state_of(pytestconfig)
    if webgpu_runner.info.software and model != "tiny":
        pytest.skip(f"NOT MEASURED: 20 prompts of {model} take hours on a software adapter")
    fusions = ",".join(state.settings["fusions"])
    state.progress(f"qwen2: {model} {dtype}, fusions {fusions}, {CAPACITY} positions: plan, weights, pipelines")
    one = Generator(find_model(model), webgpu_runner, dtype, fusions, CAPACITY, library=state.kernels)
    yield one
    one.close()


@pytest.mark.slow
@pytest.mark.parametrize("length", [*LENGTHS, CAPACITY - NEW_TOKENS])
def test_prompt(generator: Generator, length: int, pytestconfig: pytest.Config) -> None:
    """By the rule of qwen2.reference, whose runs are on CUDA where it is."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prompt = generator.model.drawn_prompt(length, seed=length)
    found = generator.generate(prompt, NEW_TOKENS, logits=True)
    verdict = reference.judge(generator.model, prompt, found.tokens, found.logits, generator.dtype, device)
    state_of(pytestconfig).record(
        "prompt", model=generator.model.name, dtype=generator.dtype, length=length, new_tokens=NEW_TOKENS,
        ratio=verdict.ratio, decided=verdict.decided, ok=verdict.ok,
    )  # fmt: skip
    assert verdict.ok, f"{verdict}\n{first_wrong(generator, prompt)}"
