"""The limits that a device is asked for: WebGPU's defaults, unless told otherwise."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
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

# https://www.w3.org/TR/webgpu/#feature-index
FEATURES = frozenset({
    "core-features-and-limits", "depth-clip-control", "depth32float-stencil8", "texture-compression-bc",
    "texture-compression-bc-sliced-3d", "texture-compression-etc2", "texture-compression-astc",
    "texture-compression-astc-sliced-3d", "timestamp-query", "indirect-first-instance", "shader-f16",
    "rg11b10ufloat-renderable", "bgra8unorm-storage", "float32-filterable", "float32-blendable", "clip-distances",
    "dual-source-blending", "subgroups", "subgroup-size-control", "texture-formats-tier1", "texture-formats-tier2",
    "primitive-index", "texture-component-swizzle",
})  # fmt: skip

LimitsAsked: TypeAlias = Mapping[str, int] | Literal["max"] | None


def limit_name(name: str) -> str:
    """WebGPU's name in kebab case, from that, snake case or camel case: "maxBufferSize" is "max-buffer-size"."""
    kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).replace("_", "-").lower()
    if kebab not in DEFAULT_LIMITS:
        raise LimitError(unknown_limit(name) or "", limit=name)
    return kebab


def unknown_limit(name: str) -> str | None:
    """What to say of a limit that WebGPU does not have for compute; None for one that it has."""
    return _unknown(name, DEFAULT_LIMITS, f"There is no limit named {name!r} for compute.", "limits")


def unknown_feature(name: str) -> str | None:
    """What to say of a feature that WebGPU does not have; None for one that it has."""
    return _unknown(name, FEATURES, f"WebGPU has no feature named {name!r}.", "features")


def _unknown(name: str, known: Collection[str], message: str, what: str) -> str | None:
    close = difflib.get_close_matches(name, known, n=1)
    near = f" Did you mean {close[0]!r}?" if close else ""
    return None if name in known else f"{message}{near} The {what} are: {', '.join(sorted(known))}."


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
