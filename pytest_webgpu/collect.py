"""A .wgsl file as a test module: `pytest my_softmax.wgsl`."""

from __future__ import annotations

import fnmatch
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_webgpu import options


def wanted(path: Path, session: pytest.Session, settings: options.Settings) -> bool:
    """Whether a .wgsl is a kernel to check: named on the command line, named by `webgpu_files`, or with a header."""
    root = session.config.rootpath
    relative = path.relative_to(root) if path.is_relative_to(root) else path
    named = any(fnmatch.fnmatch(str(relative), pattern) or path.match(pattern) for pattern in settings["files"])
    if named or session.isinitpath(path):
        return True
    try:
        return has_header(path)
    except OSError:  # its test says that it cannot be read; left out, it would pass unseen
        return True


def has_header(path: Path) -> bool:
    """Whether the file, or the .toml of the same name beside it, says which op it implements."""
    side = path.with_suffix(".toml")
    lines = side.read_text(encoding="utf-8-sig", errors="replace").splitlines() if side.is_file() else []
    with path.open(encoding="utf-8-sig", errors="replace") as file:
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
        for test in self._tests(options.resolve(self.config)):
            setattr(module, test.__name__, test)
        return module

    def istestfunction(self, obj: object, name: str) -> bool:
        return name in ("conformance", "speed", "mutants")  # whatever `python_functions` says

    def _tests(self, settings: options.Settings) -> Iterator[Callable[..., None]]:
        path = self.path

        def conformance(wgsl: Any, variant: int) -> None:
            __tracebackhide__ = True
            wgsl.of(wgsl(path).variants[variant]).check()

        def speed(wgsl: Any, dims: str, variant: int) -> None:
            __tracebackhide__ = True
            wgsl.of(wgsl(path).variants[variant]).race(dims)

        def mutants(wgsl: Any, variant: int) -> None:
            __tracebackhide__ = True
            wgsl.of(wgsl(path).variants[variant]).mutate()

        yield self._of_each_type(conformance)
        if settings["mutants"]:
            yield self._of_each_type(mutants)
        if settings["bench"] and self.session.isinitpath(path):
            yield pytest.mark.parametrize("dims", settings["dims"])(self._of_each_type(speed))

    def _of_each_type(self, test: Callable[..., None]) -> Callable[..., None]:
        """A test for each element type of the kernel; its place, in pytest's eyes, is the .wgsl and not this module."""
        from pytest_webgpu.kernels.source import KernelError
        from pytest_webgpu.plugin import state_of

        assert isinstance(test, types.FunctionType)
        test.__code__ = test.__code__.replace(co_filename=str(self.path), co_firstlineno=1)
        try:
            kernels = state_of(self.config).read(self.path).variants()
        except KernelError:  # the test says so, which spoils nothing else as an error in collection would
            kernels = []
        if len(kernels) <= 1:
            test.__defaults__ = (0,)
            return test
        names = [kernel.name.removeprefix(self.path.stem).strip("[]") for kernel in kernels]
        return pytest.mark.parametrize("variant", range(len(names)), ids=names)(test)


def cut(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """An error of ours says by itself what is wrong: of its traceback the frames of who called us are left."""
    if not type(excinfo.value).__module__.startswith("pytest_webgpu."):
        return
    tb, last = excinfo.tb, None
    while tb is not None:
        if not tb.tb_frame.f_globals.get("__name__", "").startswith("pytest_webgpu."):
            last = tb
        tb = tb.tb_next  # type: ignore[assignment]
    if last is not None:
        last.tb_next = None


def shorten(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A failure of a kernel file is what the check has to say, without Python's own frames."""
    if report.failed and call.excinfo is not None and item.getparent(KernelFile) is not None:
        error = call.excinfo.value
        if type(error).__module__.startswith("pytest_webgpu."):
            report.longrepr = f"{type(error).__name__}: {error}"
