"""What a page's greeting tells of its browser and adapter. Browsers hide much: what is not told stays empty."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_webgpu.gpu.adapters import SOFTWARE
from pytest_webgpu.gpu.job import DeviceInfo

_BACKENDS = {"opengl": "gl", "opengles": "gl", "webgpu": ""}
_AGENTS = (("firefox", r"Firefox/([\d.]+)"), ("chrome", r"Chrome/([\d.]+)"), ("safari", r"Version/([\d.]+).*Safari/"))


def device_info(hello: Mapping[str, Any], features: Sequence[str], limits: Mapping[str, int]) -> DeviceInfo:
    """`hello` is page.js's greeting; `features` and `limits` are the device's."""
    told, text = hello["told"], hello["agent"]["text"]
    implementation, version = _agent(text)
    for brand in hello["agent"]["versions"]:
        if "Chrom" in brand["brand"]:
            version = brand["version"]
    backend = str(told.get("backend", "")).lower()
    name = told.get("description") or told.get("device") or told.get("architecture") or told.get("vendor") or "unnamed"
    subgroup = (int(told.get("subgroupMinSize") or 0), int(told.get("subgroupMaxSize") or 0))
    kind = str(told.get("type", "")).lower()
    hidden = " ".join(str(value) for value in told.values())
    return DeviceInfo(
        implementation=implementation,
        version=version,
        backend=_BACKENDS.get(backend, backend) or _only_backend(implementation, text),
        adapter=str(name),
        vendor=str(told.get("vendor", "")),
        driver=str(told.get("driver", "")),
        software=kind == "cpu" or bool(told.get("isFallbackAdapter")) or bool(SOFTWARE.search(hidden)),
        features=tuple(sorted(features)),
        limits=dict(limits),
        subgroup_size=subgroup if "subgroups" in features and subgroup[0] else None,
        os=(re.search(r"\(([^)]*)\)", text) or [text, text])[1],
    )


def _agent(text: str) -> tuple[str, str]:
    for implementation, pattern in _AGENTS:
        if match := re.search(pattern, text):
            return implementation, match[1]
    return "browser", ""


def _only_backend(implementation: str, agent: str) -> str:
    """Firefox and Safari do not tell; they have one a system."""
    if "Mac OS" in agent or "iPhone" in agent or "iPad" in agent:
        return "metal"
    if implementation == "firefox":
        return "d3d12" if "Windows" in agent else "vulkan"
    return "unknown"
