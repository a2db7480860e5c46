"""The limits that a device is asked for: WebGPU's defaults, unless told otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from pytest_webgpu.gpu.job import LimitError

# https://www.w3.org/TR/webgpu/#limits, the column "Default", of the limits that compute meets.
DEFAULT_LIMITS: dict[str, int] = {
    "max-bind-groups": 4,
    "max-bindings-per-bind-group": 1000,
    "max-dynamic-uniform-buffers-per-pipeline-layout": 8,
    "max-dynamic-storage-buffers-per-pipeline-layout": 4,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffers-per-shader-stage": 12,
    "max-uniform-buffer-binding-size": 64 << 10,
    "max-storage-buffer-binding-size": 128 << 20,
    "min-uniform-buffer-offset-alignment": 256,
    "min-storage-buffer-offset-alignment": 256,
    "max-buffer-size": 256 << 20,
    "max-compute-workgroup-storage-size": 16 << 10,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroups-per-dimension": 65535,
}

LimitsAsked: TypeAlias = Mapping[str, int] | Literal["max"] | None


def limit_name(name: str) -> str:
    """WebGPU's name in kebab case, from that, snake case or camel case: "maxBufferSize" is "max-buffer-size"."""
    kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).replace("_", "-").lower()
    if kebab not in DEFAULT_LIMITS:
        known = ", ".join(sorted(DEFAULT_LIMITS))
        raise LimitError(f"There is no limit named {name!r} for compute. The limits are: {known}.", limit=name)
    return kebab


def resolve(adapter: Mapping[str, int], asked: LimitsAsked) -> tuple[dict[str, int], list[str]]:
    """The limits to request of an adapter that has limits `adapter`, and a sentence for each that is below a default.

    None asks for the defaults, "max" for all that the adapter has, a mapping for the defaults with some changed.
    Asking by name for more than the adapter has raises LimitError.
    """
    if asked == "max":
        return {name: adapter[name] for name in DEFAULT_LIMITS if name in adapter}, []
    changed = {limit_name(name): int(value) for name, value in (asked or {}).items()}
    limits, notes = {}, []
    for name, default in DEFAULT_LIMITS.items():
        have = adapter.get(name)
        wanted = changed.get(name, default)
        if have is None:
            continue
        lesser = name.startswith("min-")  # an alignment: the smaller, the more the adapter can do
        if wanted < have if lesser else wanted > have:
            if name in changed:
                raise LimitError(
                    f"The limit {name} = {wanted} was asked for and this adapter allows {have}.",
                    limit=name, asked=wanted, allowed=have,
                )  # fmt: skip
            notes.append(f"{name} is {have} here; WebGPU's default is {default}")
            wanted = have
        limits[name] = wanted
    return limits, notes
