"""The `wgsl` fixture: kernels from files or text, checked on the session's adapter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_webgpu import options, resources

if TYPE_CHECKING:
    from pytest_webgpu.gpu.job import Runner
    from pytest_webgpu.kernels.source import KernelSource
    from pytest_webgpu.state import State


class Wgsl:
    """Called with a file, gives the kernel in it; `source` takes text. Keyword arguments are header keys."""

    def __init__(self, runner: Runner, state: State) -> None:
        self.runner, self.state = runner, state

    def __call__(self, path: str | os.PathLike[str], **header: Any) -> Subject:
        found = self._find(Path(path))
        return self.source(found.read_text(encoding="utf-8"), path=found, **header)

    def source(self, text: str, path: Path | None = None, **header: Any) -> Subject:
        """The kernel that is the text; `path` is what errors name."""
        from pytest_webgpu.kernels.source import parse_source

        keys = {**options.header(self.state.settings), **header}
        return Subject(self, parse_source(text, path=path, header=keys or None).variants())

    def of(self, kernel: KernelSource) -> Subject:
        """A kernel that has been read already."""
        return Subject(self, [kernel])

    def _find(self, path: Path) -> Path:
        """As given; else beside the test that runs; else among the shipped kernels."""
        config = self.state.config
        test = Path(config.rootpath, os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0])
        folders = [config.invocation_params.dir, test.parent, resources.folder("wgsl")]
        for folder in folders:
            if (folder / path).is_file():
                return folder / path
        raise FileNotFoundError(f"no kernel {path}: looked in {', '.join(map(str, folders))}")


class Subject:
    """One kernel file, in each of its element types, on one adapter."""

    def __init__(self, wgsl: Wgsl, variants: list[KernelSource]) -> None:
        self._wgsl, self.variants = wgsl, variants
