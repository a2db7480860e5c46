"""What a stored figure is a figure of: implementation, adapter, driver, machine, dtype and model.

Figures are compared only under one fingerprint. A near miss differs in what an update changes (NEAR): it is shown,
and accepted only on request.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_webgpu.gpu.adapters import SOFTWARE
from pytest_webgpu.gpu.job import DeviceInfo

NEAR = ("version", "driver", "os", "cpu")
FEATURES = ("shader-f16", "subgroups")  # those that change which kernels run, and so what is timed


@dataclass(frozen=True)
class Fingerprint:
    """`dtype` and `model` are empty for what does not depend on them; `cpu`, since it issues the dispatches."""

    implementation: str
    version: str
    backend: str
    vendor: str
    adapter: str
    driver: str
    os: str
    cpu: str
    features: tuple[str, ...]
    dtype: str = ""
    model: str = ""

    @property
    def software(self) -> bool:
        """Whether the processor does the device's work, beside whatever else it does (a browser may hide its name)."""
        return bool(SOFTWARE.search(f"{self.adapter} {self.driver}"))

    @property
    def key(self) -> str:
        """The folder's name: what a person looks for, then a hash of everything."""
        words = (self.implementation, self.backend, self.adapter, self.model, self.dtype)
        readable = re.sub(r"[^a-z0-9.]+", "-", " ".join(w for w in words if w).lower()).strip("-")[:80]
        digest = hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()
        return f"{readable}-{digest[:8]}"

    @property
    def text(self) -> str:
        what = (f"{self.adapter} on {self.backend}", f"{self.implementation} {self.version}", self.driver)
        parts = (*what, self.os, self.cpu, ", ".join(self.features), self.model, self.dtype)
        return "; ".join(p for p in parts if p)

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "features": list(self.features)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Fingerprint:
        """Raises KeyError or TypeError for a field that is missing or of another type."""
        values = {f.name: data[f.name] for f in dataclasses.fields(cls)}
        values["features"] = tuple(values["features"])
        if not all(isinstance(v, str) for v in (*values["features"], *values.values()) if v != values["features"]):
            raise TypeError("every field is text")
        return cls(**values)

    def differences(self, other: Fingerprint) -> dict[str, tuple[Any, Any]]:
        """Field: (ours, theirs) for every field that differs."""
        ours, theirs = self.as_dict(), other.as_dict()
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}

    def is_near(self, other: Fingerprint) -> bool:
        """True when the two differ, and only in what an update of driver, system or library changes."""
        differences = self.differences(other)
        return bool(differences) and set(differences) <= set(NEAR)


def fingerprint(
    info: DeviceInfo, *, dtype: str = "", model: str = "", features: Collection[str] | None = None
) -> Fingerprint:
    """The fingerprint of figures taken on the device `info` describes. `features`: those used, default the device's."""
    used = info.features if features is None else features
    return Fingerprint(
        implementation=info.implementation,
        version=info.version,
        backend=info.backend,
        vendor=info.vendor,
        adapter=info.adapter,
        driver=info.driver,
        os=info.os or platform.platform(),
        cpu=host_cpu(),
        features=tuple(f for f in FEATURES if f in used),
        dtype=dtype,
        model=model,
    )


def host_cpu() -> str:
    """The processor's name and how many cores this process may use: "AMD EPYC 7763 64-Core Processor, 2 cores"."""
    name = platform.processor() or platform.machine()
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        told = ""
    if found := re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE):
        name = found[1].strip()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"
