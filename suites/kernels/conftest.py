from __future__ import annotations

from pathlib import Path

import pytest

from pytest_webgpu.gate.against import AgainstError, edited
from pytest_webgpu.plugin import state_of


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What compares with a revision is there where one is named."""
    if collection_path.name != "test_against.py":
        return None
    against = state_of(config).settings["against"]
    return None if against and not Path(against).is_file() else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`edited`: the kernels that are otherwise at the revision; where that is none, one, whose test says so."""
    if "edited" in metafunc.fixturenames:
        state = state_of(metafunc.config)
        kernels = [k for k in state.kernels.all() if k.path is not None]
        try:
            files = {path.resolve() for path in edited(kernels[0].path.parent, state.settings["against"])}
            kernels = [k for k in kernels if k.path.resolve() in files]
        except AgainstError:
            kernels = kernels[:1]
        metafunc.parametrize("edited", kernels, ids=[k.name for k in kernels])
