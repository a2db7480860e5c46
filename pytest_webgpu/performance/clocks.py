"""How fast an NVIDIA GPU was allowed to run while measured: clocks, power, memory, throttling, where nvidia-ml-py is.

WebGPU tells none of this. Elsewhere, and for every other vendor, there is nothing to record.
"""

from __future__ import annotations

import importlib
from typing import Any

from pytest_webgpu.gpu.job import DeviceInfo


def clocks(info: DeviceInfo) -> dict[str, Any] | None:
    """{"sm_mhz", "memory_mhz", "watts", "used_bytes", "celsius", "throttled": reasons} of that GPU, or None.

    With several GPUs of one name it is the first of them, and "of" says how many there are.
    """
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        return None  # not installed, or no NVIDIA driver: nothing that tells
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        named = [h for h in handles if _same(nvml.nvmlDeviceGetName(h), info.adapter)]
        return _read(nvml, named[0]) | {"of": len(named)} if named else None
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _same(name: str | bytes, adapter: str) -> bool:
    told = name.decode() if isinstance(name, bytes) else name
    return told in adapter or adapter in told


def _read(nvml: Any, handle: Any) -> dict[str, Any]:
    bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    prefix = "nvmlClocksEventReason"
    reasons = {n.removeprefix(prefix): getattr(nvml, n) for n in dir(nvml) if n.startswith(prefix)}
    return {
        "sm_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "watts": nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
        "used_bytes": int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
        "celsius": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "throttled": sorted(n for n, bit in reasons.items() if bits & bit and n not in ("None", "GpuIdle", "All")),
    }
