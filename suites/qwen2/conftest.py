from __future__ import annotations

import pytest
import torch

from pytest_webgpu.performance.ablation import levels
from pytest_webgpu.plugin import state_of


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
