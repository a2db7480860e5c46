"""A .wgsl file as a test module: `pytest my_softmax.wgsl`."""

from __future__ import annotations

import fnmatch
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_webgpu import options


def wanted(path: Path, session: pytest.Session, settings: options.Settings) -> bool:
    """Whether a .wgsl is a kernel to check: named on the command line, named by `webgpu_files`, or with a header."""
    root = session.config.rootpath
    relative = path.relative_to(root) if path.is_relative_to(root) else path
    named = any(fnmatch.fnmatch(str(relative), pattern) or path.match(pattern) for pattern in settings["files"])
    return named or session.isinitpath(path) or has_header(path)


def has_header(path: Path) -> bool:
    """Whether the file, or the .toml of the same name beside it, says which op it implements."""
    side = path.with_suffix(".toml")
    lines = side.read_text(encoding="utf-8", errors="replace").splitlines() if side.is_file() else []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in map(str.strip, file):
            if line and not line.startswith("//"):
                break
            if line.startswith("//!"):
                lines.append(line.removeprefix("//!"))
    return any(line.split("=")[0].strip() == "op" for line in lines)


class KernelFile(pytest.Module):
    """Its tests take the `wgsl` fixture like any other, so that parameters, marks and other plugins work on them."""

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        module.conformance = self._conformance()  # type: ignore[attr-defined]
        return module

    def istestfunction(self, obj: object, name: str) -> bool:
        return name == "conformance"  # whatever `python_functions` says

    def _conformance(self) -> Callable[..., None]:
        from pytest_webgpu.kernels.source import KernelError
        from pytest_webgpu.plugin import state_of

        path = self.path

        def conformance(wgsl: Any, variant: int) -> None:
            __tracebackhide__ = True
            wgsl.of(wgsl(path).variants[variant]).check()

        try:
            variants = state_of(self.config).read(path).variants()
            names = [kernel.name.removeprefix(path.stem).strip("[]") for kernel in variants]
        except KernelError:  # the test says so, which spoils nothing else as an error in collection would
            names = [""]
        # pytest gives as the place of a test where its code is from: the .wgsl, not this module
        conformance.__code__ = conformance.__code__.replace(co_filename=str(path), co_firstlineno=1)
        if len(names) == 1:
            conformance.__defaults__ = (0,)
            return conformance
        parametrized: Callable[..., None] = pytest.mark.parametrize("variant", range(len(names)), ids=names)(
            conformance
        )
        return parametrized


def shorten(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A failure of a kernel file is what the check has to say, without Python's own frames."""
    if report.failed and call.excinfo is not None and item.getparent(KernelFile) is not None:
        error = call.excinfo.value
        if type(error).__module__.startswith("pytest_webgpu."):
            report.longrepr = f"{type(error).__name__}: {error}"
