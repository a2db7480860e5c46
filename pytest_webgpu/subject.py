"""The `wgsl` fixture: kernels from files or text, checked on the session's adapter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_webgpu import options, resources

if TYPE_CHECKING:
    from pytest_webgpu.conformance.check import Report
    from pytest_webgpu.gpu.job import Runner
    from pytest_webgpu.kernels.source import KernelSource
    from pytest_webgpu.mutation import Mutation
    from pytest_webgpu.performance.stats import Comparison
    from pytest_webgpu.state import State


class Wgsl:
    """Called with a file, gives the kernel in it; `source` takes text. Keyword arguments are header keys."""

    def __init__(self, runner: Runner, state: State) -> None:
        self.runner, self.state = runner, state

    def __call__(self, path: str | os.PathLike[str], **header: Any) -> Subject:
        """The kernel of a file: as given, else beside the test that runs, else among those that are shipped."""
        __tracebackhide__ = True
        return Subject(self, self.state.read(self._find(Path(path)), **header).variants())

    def source(self, text: str, path: str | os.PathLike[str] | None = None, **header: Any) -> Subject:
        """The kernel that a text is; `path` is the name that errors give it."""
        from pytest_webgpu.kernels.source import parse_source

        keys = {**options.header(self.state.settings), **header}
        return Subject(self, parse_source(text, path=None if path is None else Path(path), header=keys).variants())

    def of(self, kernel: KernelSource) -> Subject:
        """A kernel that has been read already."""
        return Subject(self, [kernel])

    def _find(self, path: Path) -> Path:
        __tracebackhide__ = True
        config = self.state.config
        test = Path(config.rootpath, os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0])
        folders = [config.invocation_params.dir, test.parent, resources.folder("wgsl")]
        for folder in folders:
            if (folder / path).is_file():
                return folder / path
        raise FileNotFoundError(f"no kernel {path}: looked in {', '.join(dict.fromkeys(map(str, folders)))}")


class Subject:
    """One kernel file, in each of its element types, on one adapter."""

    def __init__(self, wgsl: Wgsl, variants: Sequence[KernelSource]) -> None:
        self._wgsl, self.variants = wgsl, tuple(variants)

    def check(self, op: str | None = None) -> list[Report]:
        """Holds each variant to the contract: that of its header, or `op` ("softmax", "module:function").

        Raises ConformanceFailure, whose message is the whole report. Skips the test, with the feature's name, where
        the device lacks a feature that a variant needs, after the others were checked.
        """
        __tracebackhide__ = True
        reports, lacking = [], []
        for kernel in self.variants:
            missing = sorted(kernel.features - set(self._wgsl.runner.info.features))
            if missing:
                lacking.append(f"{kernel.name} needs {', '.join(missing)}")
                info = self._wgsl.runner.info
                self._wgsl.state.record("lacking", kernel=kernel.name, op=kernel.header.op, features=missing,
                                        implementation=info.implementation, backend=info.backend)  # fmt: skip
            else:
                reports.append(self._wgsl.state.check(kernel, self._wgsl.runner, op))
        if lacking:
            info = self._wgsl.runner.info
            pytest.skip(f"{'; '.join(lacking)}, which {info.adapter} ({info.backend}) does not give")
        return reports

    def mutate(self) -> Mutation:
        """Makes each fault in each variant, one at a time, and records which the checks tell: a record a file.

        At most `--webgpu-most-mutants` of them, as unlike each other as can be. A mutant that several variants share
        is made in the first that runs here; one that no compiler takes does not count.
        """
        __tracebackhide__ = True
        from pytest_webgpu.mutation import mutate

        here = set(self._wgsl.runner.info.features)
        able = [kernel for kernel in self.variants if kernel.features <= here]
        if not able:
            missing = ", ".join(sorted(self.variants[0].features - here))
            pytest.skip(f"{self.variants[0].name} needs {missing}, which the adapter lacks")
        return mutate(self._wgsl.state, self._wgsl.runner, able)

    def race(self, dims: str) -> list[Comparison]:
        """Each variant against the shipped kernels of its op, or against `--webgpu-against`: see bench.race.

        `dims`: "rows=1,cols=896".
        """
        __tracebackhide__ = True
        from pytest_webgpu.bench import race
        from pytest_webgpu.usage import parse_dims

        wgsl, at = self._wgsl, parse_dims(dims)
        return [c for kernel in self.variants for _, c in race(wgsl.state, wgsl.runner, kernel, at)]
