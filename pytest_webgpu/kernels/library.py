"""The kernels in a folder, by the op that they claim."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from pytest_webgpu.kernels.source import KernelSource, read_source

_OP = re.compile(r"""^//!\s*op\s*=\s*["']([^"']+)["']""", re.MULTILINE)


class Library:
    """Every .wgsl file of a folder, variants expanded. KernelError, when it is asked for, for one that is broken.

    `swaps` come before the others of their op. A file is read when something asks for its op, and once.
    """

    def __init__(self, folder: Path | str, swaps: Iterable[KernelSource] = ()) -> None:
        self.folder, self.swaps = Path(folder), tuple(swaps)
        self._read: dict[Path, tuple[KernelSource, ...]] = {}

    @cached_property
    def _files(self) -> dict[Path, str | None]:
        """Each file with the op in its own header, where that is plain to see."""
        return {file: None if file.with_suffix(".toml").is_file() else _op(file)
                for file in sorted(self.folder.rglob("*.wgsl"))}  # fmt: skip

    @cached_property
    def _swapped(self) -> tuple[KernelSource, ...]:
        return tuple(v for s in self.swaps for v in s.variants())

    def _variants(self, file: Path) -> tuple[KernelSource, ...]:
        if file not in self._read:
            self._read[file] = tuple(read_source(file).variants())
        return self._read[file]

    def all(self) -> list[KernelSource]:
        """All kernels, swapped ones first."""
        return [*self._swapped, *(v for file in self._files for v in self._variants(file))]

    def for_op(self, name: str) -> list[KernelSource]:
        """The kernels of an op, swapped ones first."""
        here = (v for file, op in self._files.items() if op in (name, None) for v in self._variants(file))
        return [k for k in (*self._swapped, *here) if k.header.op == name]

    def is_swapped(self, kernel: KernelSource) -> bool:
        return any(k.sha == kernel.sha for k in self._swapped)

    def with_swaps(self, swaps: Iterable[KernelSource]) -> Library:
        """This library with more kernels, which come before the others wherever they fit."""
        other = Library(self.folder, (*self.swaps, *swaps))
        other._read = self._read
        return other


def _op(file: Path) -> str | None:
    found = _OP.search(file.read_text(encoding="utf-8-sig", errors="replace"))
    return found[1] if found else None
