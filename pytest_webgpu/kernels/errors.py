"""What is wrong with a .wgsl file or its header: always with the file, the line and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class KernelError(Exception):
    """A kernel file that cannot be used as it is. Prints as `path:line: message` and the remedy below it.

    `line` counts from 1 in `path` (the .wgsl, or the side file that holds its header).
    """

    def __init__(self, path: Path | str | None, line: int, message: str, remedy: str) -> None:
        super().__init__(path, line, message, remedy)
        self.path = "<wgsl>" if path is None else str(path)
        self.line, self.message, self.remedy = line, message, remedy

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}\n  {self.remedy}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.path, self.line, self.message, self.remedy))


class Refused(KernelError):
    """A compiler does not take the kernel's text. The remedy is what it said."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """`did you mean "x"? ` for the closest of the choices, or nothing."""
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f'did you mean "{close[0]}"? ' if close else ""


def listing(names: Iterable[str]) -> str:
    """Names for a message: `a, b, c`, or `none`."""
    return ", ".join(names) or "none"
