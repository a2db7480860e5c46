"""WGSL as each compiler wants it, and what the APIs say about it as errors of the job protocol."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.gpu.job import (
    CompileError,
    DeviceLost,
    GpuError,
    LimitError,
    MissingFeature,
    OutOfMemory,
    ValidationError,
)

EXTENSIONS = {"shader-f16": "f16", "subgroups": "subgroups"}  # WebGPU's feature -> WGSL's enable-extension
_FEATURES = {extension: feature for feature, extension in EXTENSIONS.items()}
_ENABLE = re.compile(r"\benable\s+((?:f16|subgroups)(?:\s*,\s*(?:f16|subgroups))*)\s*,?\s*;")
_LOST = re.compile(r"device (?:is|was) lost", re.IGNORECASE)
# naga: "wgsl:3:5" and ":3:5"; Tint: ":3:5 error: ..."
_PLACE = re.compile(r"(?:wgsl|┌─ |WGSL: ):(\d+):(\d+)")
_LIMITS = (
    ("max_compute_workgroup_size", "max-compute-workgroup-size-x"),
    ("total number of workgroup invocations", "max-compute-invocations-per-workgroup"),
    ("Entry-point uses workgroup_size", "max-compute-workgroup-size-x"),
    ("max_compute_workgroup_storage_size", "max-compute-workgroup-storage-size"),
    ("total use of workgroup storage", "max-compute-workgroup-storage-size"),
)


@dataclass(frozen=True)
class Source:
    """`text` is what the compiler gets: `given` with its enable lines blanked and `shift` characters put before it."""

    given: str
    text: str
    shift: int


def prepare(code: str, enable: Collection[str], implementation: str, features: Collection[str]) -> Source:
    """The source with the `enable` lines that this implementation's compiler needs, lines and columns kept.

    `enable` and the source's own enable lines together say which features it uses; MissingFeature is raised for one
    that the device lacks. Tint wants every line, naga refuses `enable subgroups;` and needs none for it.
    """
    used = {*enable} | {_FEATURES[e.strip()] for m in _ENABLE.finditer(code) for e in m[1].split(",")}
    for feature in sorted(used):
        if feature not in features:
            raise MissingFeature(f"The device has no feature {feature!r}, which the shader uses.", feature=feature)
    lines = sorted(EXTENSIONS[f] for f in used if f in EXTENSIONS)
    if implementation == "wgpu-native":
        lines = [e for e in lines if e != "subgroups"]
    prefix = "".join(f"enable {e}; " for e in lines)
    blanked = _ENABLE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)
    return Source(code, prefix + blanked, len(prefix))


def compile_error(message: str, source: Source) -> CompileError | DeviceLost:
    """With line and column (1-based) in the source as it was given, where the compiler tells them."""
    if _LOST.search(message):
        return DeviceLost(_plain(message))
    line = column = None
    if place := _PLACE.search(message):
        line, column = (int(n) for n in place.groups() if n)
        if line == 1:
            column = max(1, column - source.shift)
    return CompileError(_plain(message), line=line, column=column, code=source.given)


def warnings(module: Any) -> tuple[str, ...]:
    """What the compiler warned of in a shader module: Tint does, naga has no way to say."""
    info = module.get_compilation_info_sync()
    said = [m for m in getattr(info, "messages", info) if m.type == "warning"]
    return tuple(f"line {m.line_num}: {m.message}" for m in said)


def _plain(message: str) -> str:
    """What is wrong, first: without naga's heading, and with lines of bearable length."""
    text = re.sub(r"^Validation Error\s+Caused by:\s+In \w+\s*(?:Shader '' parsing error: )?", "", message)
    return "\n".join(line if len(line) <= 300 else line[:300] + "..." for line in text.strip().splitlines())


def translate(error: Exception) -> GpuError:
    """An exception of wgpu or wgpudawn as the job protocol's, by its class and text."""
    return from_text(type(error).__name__, str(error))


def from_text(name: str, text: str) -> GpuError:
    """The same for an error of class `name` that is told by a browser."""
    text = _plain(text)
    if _LOST.search(text):
        return DeviceLost(text)
    if name == "GPUOutOfMemoryError" or "not enough memory" in text.lower() or "out of memory" in text.lower():
        return OutOfMemory(text)
    for sign, limit in _LIMITS:
        if sign in text:
            return LimitError(text, limit=limit)
    if name in ("GPUValidationError", "GPUPipelineError", "ValueError"):
        return ValidationError(text)
    return GpuError(f"{name}: {text}")
