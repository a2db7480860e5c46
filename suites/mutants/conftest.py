from __future__ import annotations

import pytest

from pytest_webgpu.plugin import state_of

from ..conftest import HERE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`variants`: those of each kernel file, shipped ones and those of `--webgpu-kernel`."""
    if "variants" in metafunc.fixturenames:
        files: dict[object, list[object]] = {}
        for kernel in state_of(metafunc.config).kernels.all():
            files.setdefault(kernel.path, []).append(kernel)
        names = [getattr(path, "name", "kernel").removesuffix(".wgsl") for path in files]
        metafunc.parametrize("variants", [tuple(v) for v in files.values()], ids=names)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thousands of runs: only for who names this folder."""
    here = HERE / "mutants"
    if any("mutants" in argument for argument in config.args):
        return
    own = [i for i in items if i.path.is_relative_to(here)]
    config.hook.pytest_deselected(items=own)
    items[:] = [i for i in items if i not in own]
