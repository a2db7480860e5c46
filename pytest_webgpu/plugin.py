"""pytest's hooks and the fixtures. What they do is done elsewhere, and is imported when it is first needed.

Exit codes besides pytest's own: 4 when a backend, implementation or adapter that was asked for by name is not
there; 6 when tests that need WebGPU were selected and not one of them could be run.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_webgpu import hookspecs, options, usage
from pytest_webgpu.report.results import Results

if TYPE_CHECKING:
    from pytest_webgpu.gpu.adapters import Adapter
    from pytest_webgpu.gpu.job import Runner
    from pytest_webgpu.state import State, Target
    from pytest_webgpu.subject import Wgsl

EXIT_NOTHING = 6
_FIXTURES = frozenset({"webgpu_adapter", "webgpu_runner", "webgpu_device", "wgsl"})

_SETTINGS: pytest.StashKey[options.Settings] = pytest.StashKey()
_RESULTS: pytest.StashKey[Results] = pytest.StashKey()
_STATE: pytest.StashKey[State] = pytest.StashKey()


def state_of(config: pytest.Config) -> State:
    """The run's state, made when it is first needed."""
    from pytest_webgpu.state import State

    if _STATE not in config.stash:
        config.stash[_STATE] = State(config, config.stash[_SETTINGS])
    return config.stash[_STATE]


def needs_webgpu(item: pytest.Item) -> bool:
    return not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_addoption(parser: pytest.Parser) -> None:
    options.register(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis's plugin looks for its profile
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "webgpu(features=[...], limits={...}): needs an adapter with these WebGPU features and limits; skipped, with "
        "the name of what is missing, where there is none.",
    )
    settings = config.stash[_SETTINGS] = options.resolve(config)
    results = config.stash[_RESULTS] = Results()
    config.pluginmanager.register(results, "webgpu-results")
    usage.check(settings)
    if str(config.getoption("--hypothesis-profile", default=None) or "").startswith("webgpu"):
        from pytest_webgpu.conformance.settings import register_profiles

        register_profiles()
    named = any(settings.named(name) for name in ("backend", "implementation", "adapter"))
    if not hasattr(config, "workerinput") and not settings["list"]:
        if named:
            state_of(config).require_targets()
        if settings["kernel"]:
            state_of(config).require_kernels()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    settings = options.resolve(config)
    asked = next((name for name in ("list", "ops", "gate-self-test") if settings[name]), None)
    if asked is None:
        return None
    from pytest_webgpu import selftest
    from pytest_webgpu.report import terminal

    plain = {"list": terminal.adapters, "ops": terminal.ops}
    for line in plain[asked]() if asked in plain else selftest.run(config, settings):
        print(line, flush=True)
    return 0


def pytest_report_header(config: pytest.Config) -> list[str]:
    given = config.stash[_SETTINGS].describe()
    return [f"webgpu: {', '.join(given)}"] if given else []


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config  # only now has every conftest.py been read, which may bring ops
    if config.stash[_SETTINGS]["op"] and session.items and not hasattr(config, "workerinput"):
        state_of(config).require_op()


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    if config.option.collectonly or not any(needs_webgpu(item) for item in items):
        return []
    from pytest_webgpu.report import terminal

    return terminal.header(state_of(config))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".wgsl":
        return None
    from pytest_webgpu import collect

    if not collect.wanted(file_path, parent.session, parent.config.stash[_SETTINGS]):
        return None
    return collect.KernelFile.from_parent(parent, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    if collector.istestfunction(obj, name):
        own = getattr(obj, "pytestmark", [])
        if collector.get_closest_marker("webgpu") or any(mark.name == "webgpu" for mark in own):
            pytest.mark.usefixtures("_webgpu_needs")(obj)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "webgpu_backend" in metafunc.fixturenames:
        targets = state_of(metafunc.config).targets
        metafunc.parametrize("webgpu_backend", targets, ids=[t.id for t in targets], indirect=True, scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    if not needs_webgpu(item):
        return (yield)
    from pytest_webgpu.device import failing_on_uncaptured_errors

    with state_of(item.config).gate.test(item), failing_on_uncaptured_errors(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if needs_webgpu(item) and call.excinfo is not None:
        from pytest_webgpu import collect

        collect.cut(call.excinfo)
    report = yield
    if needs_webgpu(item):
        from pytest_webgpu import collect, gating

        report.webgpu = state_of(item.config).take_records()  # type: ignore[attr-defined]
        collect.shorten(item, call, report)
        if item.config.stash[_SETTINGS]["gate"] == "strict":
            gating.strict(report)
    return report


@pytest.hookimpl(tryfirst=True)  # before the terminal's, which prints the summary
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config, results = session.config, session.config.stash[_RESULTS]
    if hasattr(config, "workerinput") or not results.outcomes:
        return
    from pytest_webgpu import baselines, gating

    settings = config.stash[_SETTINGS]
    broken = baselines.finish(results, settings, gating.folder(config, settings))
    if exitstatus == 0 and (broken or results.nothing):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if broken else EXIT_NOTHING


@pytest.hookimpl(trylast=True)  # below pytest-benchmark's tables, where a reader's eye is
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    results, names = config.stash[_RESULTS], config.stash[_SETTINGS]["report"]
    if not results.outcomes and not names:
        return
    from pytest_webgpu.report import files, github, terminal

    terminalreporter.section("WebGPU")
    for line in terminal.summary(results, terminalreporter._tw.fullwidth):
        terminalreporter.write_line(line)
    if not config.pluginmanager.hasplugin("dsession"):  # pytest-xdist's workers look at them elsewhere
        for option in config.stash[_SETTINGS].idle():
            terminalreporter.write_line(f"note: {option} was given, and nothing that ran looked at it")
    for line in [*files.write(results, names, config.invocation_params.dir), *github.write(results, os.environ)]:
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    machine_info["webgpu"] = [device["machine"] for device in config.stash[_RESULTS].of("device")]


@pytest.fixture(scope="session")
def webgpu_backend(request: pytest.FixtureRequest) -> Target:
    """The implementation and backend that the test runs on: one of those that were asked for."""
    target: Target = request.param
    return target


@pytest.fixture(scope="session")
def webgpu_adapter(webgpu_backend: Target, pytestconfig: pytest.Config) -> Adapter:
    """The adapter of that backend, chosen by `--webgpu-adapter` where there are several."""
    from pytest_webgpu.gpu.job import NoAdapter

    try:
        return state_of(pytestconfig).adapter(webgpu_backend)
    except NoAdapter as error:
        pytest.skip(f"NOT MEASURED: {error}")


@pytest.fixture(scope="session")
def webgpu_device_descriptor(pytestconfig: pytest.Config) -> dict[str, Any]:
    """A dict to override: `limits` (None for WebGPU's defaults, "max", or a dict), `without` (a set of features)."""
    return state_of(pytestconfig).descriptor()


@pytest.fixture(scope="session")
def webgpu_runner(
    webgpu_adapter: Adapter, webgpu_device_descriptor: dict[str, Any], pytestconfig: pytest.Config
) -> Iterator[Runner]:
    """Runs jobs (`pytest_webgpu.gpu.job`) on the adapter, in a process of its own that may hang or die alone."""
    runner = state_of(pytestconfig).open(webgpu_adapter, webgpu_device_descriptor)
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def webgpu_device(
    webgpu_adapter: Adapter, webgpu_device_descriptor: dict[str, Any], request: pytest.FixtureRequest
) -> Any:
    """The implementation's own device object, in this process. A GPU error that no call raised fails the test."""
    from pytest_webgpu.device import open_device

    return open_device(webgpu_adapter, webgpu_device_descriptor, request.session.items)


@pytest.fixture(scope="session")
def wgsl(webgpu_runner: Runner, pytestconfig: pytest.Config) -> Wgsl:
    """Makes kernels from files or text: `wgsl("my_softmax.wgsl").check("softmax")`."""
    from pytest_webgpu.subject import Wgsl

    return Wgsl(webgpu_runner, state_of(pytestconfig))


@pytest.fixture
def _webgpu_needs(request: pytest.FixtureRequest, webgpu_adapter: Adapter, webgpu_device_descriptor: Any) -> None:
    from pytest_webgpu import device

    for mark in request.node.iter_markers("webgpu"):
        missing = device.missing(webgpu_adapter, webgpu_device_descriptor, *mark.args, **mark.kwargs)
        if missing:
            pytest.skip(missing)
