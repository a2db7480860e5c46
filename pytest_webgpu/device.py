"""The `webgpu_device` fixture: the implementation's own device, in this process, for users' own code."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_webgpu.gpu.adapters import Adapter


def open_device(adapter: Adapter, descriptor: dict[str, Any], items: Iterable[pytest.Item]) -> Any:
    """A device with what the descriptor says, and the limits that `webgpu` marks of the selected tests ask for.

    A mark that asks for more than the adapter has skips its own test, and counts for nothing here. A browser's device
    is not in this process: the test is skipped.
    """
    if adapter.browser:
        pytest.skip(f"webgpu_device is an object in this process, and {adapter.info.implementation}'s is on its page")
    from pytest_webgpu.gpu.native import NativeRunner

    if adapter.browser:
        pytest.skip(f"webgpu_device is a device in this process; {adapter.browser}'s is on a page: use wgsl")
    limits = descriptor["limits"]
    if limits != "max":
        limits = dict(limits or {})
        marks = [mark for item in items for mark in item.iter_markers("webgpu")]
        for name, value in (pair for mark in marks for pair in mark.kwargs.get("limits", {}).items()):
            if value <= adapter.info.limits.get(name, 0) and name not in (descriptor["limits"] or {}):
                limits[name] = max(value, limits.get(name, 0))
    return NativeRunner(adapter, limits or None, descriptor["without"]).device


def missing(
    adapter: Adapter, descriptor: dict[str, Any], *others: Any, features: Iterable[str] = (),
    limits: Mapping[str, int] | None = None,
) -> str | None:  # fmt: skip
    """What the `webgpu` marker asks for and the device cannot have, in words; None when there is nothing.

    Fails the test whose marker asks for what WebGPU does not have.
    """
    from pytest_webgpu.gpu.limits import unknown_feature, unknown_limit

    told: list[str | None] = [f"it takes features=[...] and limits={{...}}, not {other!r}" for other in others]
    told += [unknown_feature(f) for f in features if f not in adapter.info.features]
    told += [unknown_limit(name) for name in limits or {}]
    for problem in filter(None, told):
        pytest.fail(f"@pytest.mark.webgpu: {problem}", pytrace=False)
    lacking = [f for f in features if f not in adapter.info.features or f in descriptor["without"]]
    if lacking:
        return f"no {', '.join(lacking)} on {adapter.info.adapter} ({adapter.info.backend})"
    held = descriptor["limits"] if isinstance(descriptor["limits"], dict) else {}
    for name, value in (limits or {}).items():
        has = min(adapter.info.limits.get(name, 0), held.get(name, value))
        if has < value:
            return f"{name} is {has}, below {value}, on {adapter.info.adapter} ({adapter.info.backend})"
    return None


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def failing_on_uncaptured_errors(item: pytest.Item) -> Iterator[None]:
    """Fails a test that has `webgpu_device` for a GPU error that no call raised: both implementations log those."""
    if "webgpu_device" not in getattr(item, "fixturenames", ()):
        yield
        return
    handler = _Errors()
    loggers = [logging.getLogger(name) for name in ("wgpu", "wgpudawn")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    if handler.messages:
        pytest.fail("uncaptured GPU error: " + "\n".join(handler.messages), pytrace=False)
