from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

import pytest

from pytest_webgpu.gpu import adapters
from pytest_webgpu.gpu.browser import BrowserRunner
from pytest_webgpu.gpu.calls import INTERNALS
from pytest_webgpu.gpu.job import NoAdapter
from pytest_webgpu.gpu.launch import BROWSERS, find_browser

collect_ignore_glob = ["alternatives/*.wgsl"]  # test_alternatives.py holds them, on fewer cases


def pytest_sessionstart() -> None:
    """pytester forgets what a run in this process imported, and these cannot be imported a second time."""
    for implementation in adapters.MODULES:
        with contextlib.suppress(NoAdapter):
            adapters.load(implementation)
            importlib.import_module(INTERNALS[implementation])
    for name in ("torch", "hypothesis", "jaxtyping", "pytest_webgpu.gating", "pytest_webgpu.report.html"):
        importlib.import_module(name)


@pytest.fixture(scope="session", params=list(BROWSERS))
def browser_name(request: pytest.FixtureRequest) -> str:
    try:
        find_browser(request.param)
    except NoAdapter as error:
        pytest.skip(error.message)
    return str(request.param)


@pytest.fixture(scope="session")
def browser(browser_name: str) -> Iterator[BrowserRunner]:
    """Runs jobs in Chrome and in Firefox, each where it is installed and started once for all tests."""
    runner = BrowserRunner(browser_name)
    yield runner
    runner.close()
