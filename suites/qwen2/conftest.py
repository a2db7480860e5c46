from __future__ import annotations

import contextlib
import importlib.util

import pytest
import torch

from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.performance.ablation import levels, measure_ablation
from pytest_webgpu.performance.predict import Beside
from pytest_webgpu.plugin import state_of
from pytest_webgpu.qwen2 import reference
from pytest_webgpu.qwen2.config import find_model

from .running import Ladder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`model` and `dtype`: those of the options; and 0.5B at its true shape as a slow one."""
    if "model" in metafunc.fixturenames:
        settings = state_of(metafunc.config).settings
        models = [*settings["model"]]
        if not settings.named("model"):
            models.append(pytest.param("qwen2.5-0.5b", marks=pytest.mark.slow))
        metafunc.parametrize("model", models, scope="session")
        dtypes = [*settings["dtype"]]
        if "level" in metafunc.fixturenames and not settings.named("dtype"):  # one is enough to see what fusions bring
            dtypes[1:] = [pytest.param(dtype, marks=pytest.mark.slow) for dtype in dtypes[1:]]
        metafunc.parametrize("dtype", dtypes, scope="session")
    if "level" in metafunc.fixturenames:
        names = [level.name for level in levels(",".join(state_of(metafunc.config).settings["fusions"]))]
        metafunc.parametrize("level", names, ids=[name.removeprefix("+ ") for name in names])
    if "peer" in metafunc.fixturenames:
        peers = [("cpu", "eager")]
        if torch.cuda.is_available():
            peers += [("cuda", "eager"), ("cuda", "compiled")]
        metafunc.parametrize("peer", peers, ids="-".join)


@pytest.fixture(scope="session", autouse=True)
def _transformers() -> None:
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("NOT MEASURED: no transformers, which has the model: pip install 'pytest-webgpu[qwen2]'")


@pytest.fixture(scope="session")
def ladder(timed: None, webgpu_runner: Runner, model: str, dtype: str, pytestconfig: pytest.Config) -> Ladder:
    state = state_of(pytestconfig)
    if webgpu_runner.info.software and model != "tiny":
        pytest.skip(f"NOT MEASURED: {model} with and without fusions takes hours on a software adapter")
    every = levels(",".join(state.settings["fusions"]))
    with contextlib.closing(Beside(webgpu_runner, every=4)) as beside:
        found = measure_ablation(
            webgpu_runner, find_model(model), dtype, every, library=state.kernels, progress=state.progress,
            between=beside.take,
        )  # fmt: skip
    first, prompt = found.first, find_model(model).drawn_prompt(found.prompt_tokens)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    verdict = reference.judge(find_model(model), prompt, first.tokens, first.logits, dtype, device)
    assert verdict.ok, f"without fusions: {verdict}"
    return Ladder(found, 2 * verdict.allowed, beside)
