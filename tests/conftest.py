from __future__ import annotations

import importlib

import pytest

from pytest_webgpu.gpu import adapters


@pytest.fixture(scope="session")
def imported_once() -> None:
    """pytester forgets what a run in this process imported, and these cannot be imported a second time."""
    adapters.load("wgpu-native")
    for name in ("torch", "hypothesis", "jaxtyping", "pytest_webgpu.gate.store", "pytest_webgpu.report.html"):
        importlib.import_module(name)
