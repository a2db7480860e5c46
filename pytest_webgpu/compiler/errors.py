"""What can go wrong between a model and its list of dispatches."""

from __future__ import annotations

from typing import Any


class CompilerError(Exception):
    """The root of this tree."""


class Unsupported(CompilerError):
    """The model does something that no op here computes. The message names it and the model's line."""


class NoKernel(CompilerError):
    """No kernel implements an op at the dims and dtypes that the plan needs. The message says why each does not."""


class TooLarge(CompilerError):
    """A buffer or binding over the device's limits that cannot be cut into pieces."""


class UnknownFusion(CompilerError):
    """A name in `fusions` that is no fusion."""


def where(node: Any) -> str:
    """The model's own line that an fx node came from, as `file:line in function`, or the node's name."""
    trace = str(node.meta.get("stack_trace") or "").strip().splitlines()
    frames = [line.strip() for line in trace if line.strip().startswith("File ")]
    return frames[-1] if frames else f"node {node.name}"
