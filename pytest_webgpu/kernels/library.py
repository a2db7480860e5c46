"""The kernels in a folder, by the op that they claim."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from pytest_webgpu.kernels.source import KernelSource, read_source


class Library:
    """Every .wgsl file of a folder, variants expanded; read when first asked for. KernelError for one that is broken.

    `swaps` come before the others of their op.
    """

    def __init__(self, folder: Path | str, swaps: Iterable[KernelSource] = ()) -> None:
        self.folder, self.swaps = Path(folder), tuple(swaps)

    @cached_property
    def _kernels(self) -> tuple[KernelSource, ...]:
        files = sorted(self.folder.rglob("*.wgsl"))
        return tuple(v for file in files for v in read_source(file).variants())

    @cached_property
    def _swapped(self) -> tuple[KernelSource, ...]:
        return tuple(v for s in self.swaps for v in s.variants())

    def all(self) -> list[KernelSource]:
        """All kernels, swapped ones first."""
        return [*self._swapped, *self._kernels]

    def for_op(self, name: str) -> list[KernelSource]:
        """The kernels of an op, swapped ones first."""
        return [k for k in self.all() if k.header.op == name]

    def is_swapped(self, kernel: KernelSource) -> bool:
        return any(k.sha == kernel.sha for k in self._swapped)

    def with_swaps(self, swaps: Iterable[KernelSource]) -> Library:
        """This library with more kernels, which come before the others wherever they fit."""
        other = Library(self.folder, (*self.swaps, *swaps))
        other.__dict__["_kernels"] = self._kernels
        return other
