"""What the device and the driver tell of themselves."""

import hashlib
import sys
import types

import pytest

from pytest_webgpu.gpu.job import DeviceInfo
from pytest_webgpu.performance import canary, clocks
from pytest_webgpu.performance.device import device_time, in_batches

H200 = DeviceInfo("wgpu-native", "1", "vulkan", "NVIDIA H200", "", "", False, (), {})


def test_timestamps_count_from_a_hundred_steps_of_their_clock_on():
    rounds = [[1e-6, 3e-6]] * 60
    assert in_batches(rounds, 1e-8) == pytest.approx([2e-6] * 60), "4 us are 400 steps of 10 ns"
    assert in_batches(rounds, 1e-6) == pytest.approx([2e-6] * 2), "25 rounds make 100 us"
    assert in_batches(rounds, 65.536e-6) == []
    assert in_batches([[0.0]] * 9, 0.0) == []


def test_without_timestamps_there_is_no_device_time():
    assert device_time(types.SimpleNamespace(info=H200), "program") is None


NVML = types.SimpleNamespace(
    NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2, NVML_TEMPERATURE_GPU=0, NVMLError=RuntimeError,
    nvmlClocksEventReasonNone=0, nvmlClocksEventReasonGpuIdle=1, nvmlClocksEventReasonSwPowerCap=4,
    nvmlInit=lambda: None, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: 3,
    nvmlDeviceGetHandleByIndex=lambda index: index,
    nvmlDeviceGetName=lambda handle: "NVIDIA H200" if handle else "NVIDIA T4",
    nvmlDeviceGetClockInfo=lambda handle, which: {1: 1980, 2: 3201}[which],
    nvmlDeviceGetPowerUsage=lambda handle: 123_000,
    nvmlDeviceGetMemoryInfo=lambda handle: types.SimpleNamespace(used=7 << 30),
    nvmlDeviceGetTemperature=lambda handle, sensor: 41,
    nvmlDeviceGetCurrentClocksEventReasons=lambda handle: 5,
)  # fmt: skip


def test_clocks_are_recorded_where_the_driver_tells(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", NVML)
    told = {"sm_mhz": 1980, "memory_mhz": 3201, "watts": 123.0, "used_bytes": 7 << 30, "celsius": 41,
            "throttled": ["SwPowerCap"], "of": 2}  # fmt: skip
    assert clocks.clocks(H200) == told
    assert clocks.clocks(DeviceInfo("", "", "", "llvmpipe", "", "", True, (), {})) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert clocks.clocks(H200) is None


def test_the_canary_is_the_least_time_of_fixed_work(monkeypatch):
    seconds = iter([0.0, 3.0, 10.0, 12.0, 20.0, 25.0])
    monkeypatch.setattr(canary.time, "perf_counter", lambda: next(seconds))
    assert canary.canary_seconds(3) == 2.0
    assert hashlib.sha256(canary.BLOCK).hexdigest().startswith("30e14955")
