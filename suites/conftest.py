from __future__ import annotations

from pathlib import Path

import pytest

from pytest_webgpu.plugin import state_of

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than ten seconds; in the suites run by `-m slow` only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.markexpr:
        return
    slow = [i for i in items if i.get_closest_marker("slow") and i.path.is_relative_to(HERE)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [i for i in items if i not in slow]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`kernel`: every shipped kernel, and those of `--webgpu-kernel`."""
    if "kernel" in metafunc.fixturenames:
        kernels = state_of(metafunc.config).kernels.all()
        metafunc.parametrize("kernel", kernels, ids=[k.name for k in kernels])


@pytest.fixture(scope="session")
def timed(pytestconfig: pytest.Config) -> None:
    """For what measures time: skipped where that would be measured beside other work, or not be kept."""
    if hasattr(pytestconfig, "workerinput"):
        pytest.skip("NOT MEASURED: other workers of pytest-xdist run beside this one; leave out -n")
    if pytestconfig.getoption("benchmark_disable", default=False) or pytestconfig.getoption("benchmark_skip"):
        pytest.skip("NOT MEASURED: pytest-benchmark is turned off")
