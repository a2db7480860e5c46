from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_webgpu.plugin import state_of

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than ten seconds; in the suites run by `-m slow` only")
    # torch's own, about itself, when a test is the first to compile; it must not fail who turns warnings into errors
    config.addinivalue_line("filterwarnings", "ignore:.?torch.jit.script:DeprecationWarning")


SET_UP = ("webgpu_backend", "effort", "model", "dtype")
"""Parameters of session fixtures in which much is measured; those of the first change the least often."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Leaves out what is slow. Sorts after pytest, which goes back and forth between values of such parameters, and a
    fixture holds one: everything on one adapter after the other, there one model, so that each is measured once."""
    yield
    if not config.option.markexpr:
        slow = [i for i in items if i.get_closest_marker("slow") and i.path.is_relative_to(HERE)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [i for i in items if i not in slow]
    places = [i for i, item in enumerate(items) if item.path.is_relative_to(HERE)]
    own = [items[i] for i in places]
    for name in reversed(SET_UP):
        values = [_parameter(item, name) for item in own]
        seen = list(dict.fromkeys(values))
        own = [item for one in seen for item, value in zip(own, values, strict=True) if value == one]
    for place, item in zip(places, own, strict=True):
        items[place] = item


def _parameter(item: pytest.Item, name: str) -> object:
    return item.callspec.params.get(name) if hasattr(item, "callspec") else None


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
