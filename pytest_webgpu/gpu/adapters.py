"""Lists, chooses and describes adapters. Nothing is probed before the first call."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.gpu.job import DeviceInfo, NoAdapter
from pytest_webgpu.gpu.limits import DEFAULT_LIMITS

MODULES = {"wgpu-native": "wgpu", "dawn": "wgpudawn"}
BROWSERS = ("chrome", "firefox", "safari", "url")
BACKENDS = ("vulkan", "metal", "d3d12", "gl")
_BACKEND_NAMES = {"OpenGL": "gl", "OpenGLES": "gl", "D3D12": "d3d12", "D3D11": "d3d11"}
SOFTWARE = re.compile(r"llvmpipe|lavapipe|softpipe|swiftshader|microsoft basic render|\bwarp\b", re.IGNORECASE)
_TYPES = {"DiscreteGPU": "discrete", "IntegratedGPU": "integrated", "VirtualGPU": "virtual", "CPU": "cpu"}
_PREFERENCE = ("discrete", "integrated", "virtual", "unknown", "cpu")


@dataclass(frozen=True)
class Adapter:
    """An adapter, and what finds it again in another process: (implementation, backend, name, ordinal).

    `ordinal` counts from 1 among the adapters of one name on one backend. Features and limits in `info` are all
    that the adapter has.
    """

    info: DeviceInfo
    type: str = "unknown"  # discrete, integrated, virtual, cpu, unknown
    ordinal: int = 1
    of_a_kind: int = 1
    browser: str = ""  # chrome, firefox, safari or url, where a browser's page is what it is reached by

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.info.implementation, self.info.backend, self.info.adapter, self.ordinal)

    @property
    def label(self) -> str:
        """The name, with its ordinal where there are several of a kind: "NVIDIA H200#2"."""
        return f"{self.info.adapter}#{self.ordinal}" if self.of_a_kind > 1 else self.info.adapter


def load(implementation: str) -> Any:
    """The implementation's module. Raises NoAdapter where it is unknown or not installed."""
    if implementation not in MODULES:
        there = ", ".join((*MODULES, *BROWSERS))
        raise NoAdapter(f"There is no implementation {implementation!r}; there are: {there}.")
    try:
        return importlib.import_module(MODULES[implementation])
    except (ImportError, OSError, RuntimeError) as error:
        extra = "pytest-webgpu[dawn]" if implementation == "dawn" else MODULES[implementation]
        raise NoAdapter(f"{implementation} cannot be loaded ({error}). Install it: pip install {extra!r}.") from error


def enumerate_adapters(implementation: str) -> list[tuple[Adapter, Any]]:
    """Every adapter with the implementation's own object for it, made anew on each call."""
    module = load(implementation)
    found = []
    for native in module.gpu.enumerate_adapters_sync():
        info = _info(implementation, module, native)
        found.append((info, _TYPES.get(str(native.info["adapter_type"]), "unknown"), native))
    numbered = number([(info, kind) for info, kind, _ in found])
    return [(adapter, native) for adapter, (_, _, native) in zip(numbered, found, strict=True)]


def number(found: Sequence[tuple[DeviceInfo, str]]) -> list[Adapter]:
    """Adapters with their ordinals among those of one name on one backend."""
    kinds = [(info.backend, info.adapter) for info, _ in found]
    return [
        Adapter(info, kind, kinds[: i + 1].count(kinds[i]), kinds.count(kinds[i]))
        for i, (info, kind) in enumerate(found)
    ]


def list_adapters(implementation: str = "wgpu-native") -> list[Adapter]:
    """A browser is started for that, and tells of one adapter. Raises NoAdapter where it cannot be."""
    if implementation in BROWSERS:
        from pytest_webgpu.gpu.browsers import browser_adapter

        return [browser_adapter(implementation)]
    return [adapter for adapter, _ in enumerate_adapters(implementation)]


def installed() -> list[str]:
    """The implementations that can be started here without anybody's help."""
    from pytest_webgpu.gpu.launch import is_installed

    native = [name for name, module in MODULES.items() if importlib.util.find_spec(module)]
    return native + [name for name in BROWSERS if is_installed(name)]


def choose(
    backend: str = "auto",
    implementation: str = "wgpu-native",
    name: str | None = None,
    adapters: Sequence[Adapter] | None = None,
) -> Adapter:
    """The adapter on `backend` ("auto": the best) whose name has `name` in it; "NAME#2" is the second such.

    Best is hardware before software, discrete before integrated, Vulkan, Metal and Direct3D before OpenGL. Raises
    NoAdapter, which lists what there is, where none fits or where the name fits several.
    """
    there = list_adapters(implementation) if adapters is None else list(adapters)
    fit = [a for a in there if backend in ("auto", a.info.backend)]
    if not fit:
        raise NoAdapter(f"There is no {implementation} adapter on backend {backend!r}.\n{_listing(there)}")
    wanted, ordinal = name, None
    if name is not None and (match := re.fullmatch(r"(.*)#(\d+)", name)):
        wanted, ordinal = match[1], int(match[2])
    if wanted:
        fit = [a for a in fit if wanted.casefold() in a.info.adapter.casefold()]
        if not fit:
            raise NoAdapter(f"No adapter on backend {backend!r} has {wanted!r} in its name.\n{_listing(there)}")
    fit.sort(key=_rank)
    if name is None:
        return fit[0]
    if ordinal is not None:
        counted = [a for b in dict.fromkeys(a.info.backend for a in fit) for a in _nth(fit, b, ordinal)]
        if not counted:
            raise NoAdapter(f"There is no adapter {name!r}.\n{_listing(there)}")
        return counted[0]
    same = [a for a in fit if a.info.backend == fit[0].info.backend]
    if len(same) > 1:
        labels = " or ".join(repr(f"{wanted}#{i + 1}") for i in range(len(same)))
        raise NoAdapter(f"{len(same)} adapters have {name!r} in their name: say {labels}.\n{_listing(same)}")
    return fit[0]


def find(key: tuple[str, str, str, int]) -> tuple[Adapter, Any]:
    """The adapter of that key and its native object, fresh (a Dawn adapter is used up by one device)."""
    implementation, backend, name, ordinal = key
    there = enumerate_adapters(implementation)
    for adapter, native in there:
        if adapter.key == (implementation, backend, name, ordinal):
            return adapter, native
    listing = _listing([a for a, _ in there])
    raise NoAdapter(f"The adapter {name!r} (number {ordinal}) on {backend!r} is not there.\n{listing}")


def request_device(implementation: str, native: Any, features: Sequence[str], limits: Mapping[str, int]) -> Any:
    """A device. Dawn rounds timestamps to 65,536 ns, as a browser must; here that is turned off."""
    if implementation != "dawn":
        return native.request_device_sync(required_features=features, required_limits=limits)
    extras = importlib.import_module("wgpudawn.backends.dawn.extras")
    return extras.request_device_sync(
        native, required_features=features, required_limits=limits, disable_toggles=["timestamp_quantization"]
    )


def describe(adapter: Adapter) -> str:
    """One line: name, backend, implementation and version, driver, and whether it is software."""
    info = adapter.info
    kind = "software" if info.software else adapter.type
    driver = f", {info.driver}" if info.driver else ""
    return f"{adapter.label} ({kind}) on {info.backend}, {info.implementation} {info.version}{driver}"


def _listing(adapters: Sequence[Adapter]) -> str:
    if not adapters:
        return "There is no adapter at all: install a graphics driver, or a software one (Mesa 25 or newer)."
    return "There is:\n" + "\n".join(f"  {describe(a)}" for a in adapters)


def _rank(adapter: Adapter) -> tuple[bool, int, bool, int]:
    info = adapter.info
    backend = BACKENDS.index(info.backend) if info.backend in BACKENDS else len(BACKENDS)
    return (info.software, _PREFERENCE.index(adapter.type), info.backend in ("gl", "d3d11"), backend)


def _nth(adapters: Sequence[Adapter], backend: str, ordinal: int) -> list[Adapter]:
    """The `ordinal`-th on a backend, counted in the system's order (sorting by rank is stable)."""
    return [a for a in adapters if a.info.backend == backend][ordinal - 1 : ordinal] if ordinal else []


def _info(implementation: str, module: Any, native: Any) -> DeviceInfo:
    told = native.info
    backend = str(told["backend_type"])
    name, driver = str(told["device"]), str(told["description"])
    return DeviceInfo(
        implementation=implementation,
        version=_version(implementation, module),
        backend=_BACKEND_NAMES.get(backend, backend.lower()),
        adapter=name or str(told["vendor"]) or "unnamed",
        vendor=str(told["vendor"]),
        driver=driver,
        software=told["adapter_type"] == "CPU" or bool(SOFTWARE.search(f"{name} {driver}")),
        features=tuple(sorted(webgpu_features(native.features) & {*map(str, module.FeatureName)})),
        limits={name: int(native.limits[name]) for name in DEFAULT_LIMITS if name in native.limits},
        subgroup_size=None,
        os=platform.platform(),
    )


def webgpu_features(features: Iterable[str]) -> set[str]:
    """Feature names as WebGPU has them: wgpu-native says "subgroup" for "subgroups"."""
    return {"subgroups" if name == "subgroup" else name for name in features}


def _version(implementation: str, module: Any) -> str:
    """wgpu-native's own version, which its Python package does not share; Dawn's package carries Dawn's."""
    if implementation == "wgpu-native":
        return str(importlib.import_module("wgpu.backends.wgpu_native").__version__)
    return str(module.__version__)
