"""A .wgsl file as a test module: `pytest my_softmax.wgsl`."""

from __future__ import annotations

import fnmatch
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_webgpu.options import Settings


def wanted(path: Path, session: pytest.Session, settings: Settings) -> bool:
    """Whether a .wgsl is a kernel to check: named on the command line, named by `webgpu_files`, or with a header."""
    if session.isinitpath(path):
        return True
    relative = path.relative_to(session.config.rootpath) if path.is_relative_to(session.config.rootpath) else path
    if any(fnmatch.fnmatch(str(relative), pattern) or path.match(pattern) for pattern in settings["files"]):
        return True
    return has_header(path)


def has_header(path: Path) -> bool:
    """Whether the file, or the .toml of the same name beside it, says which op it implements."""
    side = path.with_suffix(".toml")
    lines = _leading(path)
    if side.is_file():
        lines += side.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.split("=")[0].strip() == "op" for line in lines)


def _leading(path: Path) -> list[str]:
    lines = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.strip() and not line.lstrip().startswith("//"):
                break
            lines += [line.strip().removeprefix("//!")] if line.lstrip().startswith("//!") else []
    return lines


class KernelFile(pytest.Module):
    """Its tests take the `wgsl` fixture like any other, so that parameters, marks and other plugins work on them."""

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        for test in self._tests():
            setattr(module, test.__name__, test)
        return module

    def istestfunction(self, obj: object, name: str) -> bool:
        return name in ("conformance", "speed")

    def _tests(self) -> Iterator[Callable[..., None]]:
        path = self.path

        def conformance(wgsl: Any) -> None:
            __tracebackhide__ = True
            wgsl(path).check()

        yield _placed(conformance, path)


def _placed(test: Callable[..., None], path: Path) -> Callable[..., None]:
    """The test, with the .wgsl as its place in pytest's eyes instead of this module."""
    assert isinstance(test, types.FunctionType)
    test.__code__ = test.__code__.replace(co_filename=str(path), co_firstlineno=1)
    return test


def shorten(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A failure of a kernel file is what the check has to say, without Python's own frames."""
    if report.failed and call.excinfo is not None and item.getparent(KernelFile) is not None:
        error = call.excinfo.value
        if type(error).__module__.startswith("pytest_webgpu."):
            report.longrepr = f"{type(error).__name__}: {error}"
