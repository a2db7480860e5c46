"""Browsers as adapters. What started to tell of its adapter waits here for whoever opens it."""

from __future__ import annotations

import atexit
from collections.abc import Collection
from typing import cast

from pytest_webgpu.gpu.adapters import Adapter
from pytest_webgpu.gpu.browser import BrowserRunner, Name
from pytest_webgpu.gpu.job import DeadlineExceeded, NoAdapter, RunnerDied
from pytest_webgpu.gpu.limits import LimitsAsked

_waiting: dict[str, tuple[Adapter, BrowserRunner]] = {}


def browser_adapter(name: str) -> Adapter:
    """The adapter of a browser, which is started. Features and limits are all that the adapter has.

    Raises NoAdapter where the browser is missing, does not start or never gets to its page.
    """
    if name not in _waiting:
        try:
            runner = BrowserRunner(cast(Name, name), limits="max")
        except (RunnerDied, DeadlineExceeded) as error:
            raise NoAdapter(f"{name} cannot be used. {error.message}") from error
        kind = "cpu" if runner.info.software else "unknown"
        _waiting[name] = Adapter(runner.info, kind, browser=name), runner
        atexit.register(runner.close)
    return _waiting[name][0]


def open_browser(adapter: Adapter, limits: LimitsAsked, without: Collection[str]) -> BrowserRunner:
    """A runner on it: the browser that waits, with a new device, or one that is started."""
    _, runner = _waiting.pop(adapter.browser, (None, None))
    if runner is None:
        return BrowserRunner(cast(Name, adapter.browser), limits, without)
    atexit.unregister(runner.close)
    try:
        runner.open(limits, without)
    except BaseException:
        runner.close()
        raise
    return runner
