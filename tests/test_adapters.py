"""Choosing an adapter, over lists that no machine has."""

import pytest

from pytest_webgpu.gpu.adapters import choose, describe, list_adapters, number
from pytest_webgpu.gpu.job import DeviceInfo, LimitError, NoAdapter
from pytest_webgpu.gpu.limits import DEFAULT_LIMITS, limit_name, resolve


def adapters(*named):
    """From "backend/type/name"."""
    found = []
    for one in named:
        backend, kind, name = one.split("/")
        software = kind == "cpu"
        found.append((DeviceInfo("wgpu-native", "29", backend, name, "vendor", "driver 1", software, (), {}), kind))
    return number(found)


WORKSTATION = adapters(
    "gl/discrete/NVIDIA RTX 5090",
    "vulkan/cpu/llvmpipe (LLVM 15)",
    "vulkan/integrated/AMD Radeon Graphics",
    "vulkan/discrete/NVIDIA RTX 5090",
    "vulkan/discrete/NVIDIA RTX 5090",
    "vulkan/discrete/NVIDIA RTX 4000",
)


def chosen(backend="auto", name=None, there=WORKSTATION):
    return choose(backend, "wgpu-native", name, there).key[1:]


@pytest.mark.parametrize(
    ("backend", "name", "key"),
    [
        ("auto", None, ("vulkan", "NVIDIA RTX 5090", 1)),
        ("gl", None, ("gl", "NVIDIA RTX 5090", 1)),
        ("auto", "radeon", ("vulkan", "AMD Radeon Graphics", 1)),
        ("vulkan", "LLVM", ("vulkan", "llvmpipe (LLVM 15)", 1)),
        ("auto", "RTX 5090#2", ("vulkan", "NVIDIA RTX 5090", 2)),
        ("gl", "RTX 5090#1", ("gl", "NVIDIA RTX 5090", 1)),
        ("vulkan", "nvidia#3", ("vulkan", "NVIDIA RTX 4000", 1)),
    ],
)
def test_the_best_that_fits(backend, name, key):
    assert chosen(backend, name) == key


def test_hardware_goes_before_software_on_a_better_backend():
    there = adapters("vulkan/cpu/llvmpipe", "gl/integrated/Intel UHD")
    assert chosen(there=there) == ("gl", "Intel UHD", 1)


def test_one_gpu_of_a_kind_needs_no_number():
    assert chosen("gl", "5090") == ("gl", "NVIDIA RTX 5090", 1)


@pytest.mark.parametrize(
    ("backend", "name", "message"),
    [
        ("metal", None, r"no wgpu-native adapter on backend 'metal'.\nThere is:\n  NVIDIA RTX 5090 \(discrete\) on gl"),
        ("auto", "Arc", "No adapter on backend 'auto' has 'Arc' in its name"),
        ("auto", "RTX 5090", "2 adapters have 'RTX 5090' in their name: say 'RTX 5090#1' or 'RTX 5090#2'"),
        ("auto", "RTX 5090#3", "There is no adapter 'RTX 5090#3'"),
        ("auto", "RTX 5090#0", "There is no adapter 'RTX 5090#0'"),
    ],
)
def test_what_is_not_there_lists_what_is(backend, name, message):
    with pytest.raises(NoAdapter, match=message):
        chosen(backend, name)


def test_no_adapter_at_all():
    with pytest.raises(NoAdapter, match="no adapter at all: install a graphics driver"):
        chosen(there=[])


def test_descriptions_tell_two_of_a_kind_apart_and_name_software():
    lines = [describe(a) for a in WORKSTATION]
    assert lines[3:5] == [
        f"NVIDIA RTX 5090#{n} (discrete) on vulkan, wgpu-native 29, driver 1" for n in (1, 2)
    ]  # fmt: skip
    assert lines[1].startswith("llvmpipe (LLVM 15) (software) on vulkan")


def test_an_unknown_implementation():
    with pytest.raises(NoAdapter, match="no implementation 'edge'; there are: wgpu-native, dawn, chrome, firefox"):
        list_adapters("edge")


def test_this_machine_s_adapters_are_found_and_speak_webgpu():
    for adapter in list_adapters():
        assert adapter.info.backend in ("vulkan", "metal", "d3d12", "gl")
        assert "subgroup" not in adapter.info.features
        assert adapter.info.limits.keys() == DEFAULT_LIMITS.keys()


def test_limits():
    rich = {name: 4 * value if name.startswith("max") else 32 for name, value in DEFAULT_LIMITS.items()}
    assert resolve(rich, None) == (DEFAULT_LIMITS, [])
    assert resolve(rich, "max") == (rich, [])
    assert resolve(rich, {"max_buffer_size": 300 << 20})[0] == DEFAULT_LIMITS | {"max-buffer-size": 300 << 20}
    poor = rich | {"max-storage-buffers-per-shader-stage": 4, "min-storage-buffer-offset-alignment": 512}
    limits, notes = resolve(poor, None)
    assert limits["max-storage-buffers-per-shader-stage"] == 4
    assert limits["min-storage-buffer-offset-alignment"] == 512
    assert notes[0] == "max-storage-buffers-per-shader-stage is 4 here; WebGPU's default is 8"
    with pytest.raises(LimitError, match="max-buffer-size = 2199023255552 was asked for and this adapter allows"):
        resolve(rich, {"maxBufferSize": 1 << 41})
    assert limit_name("maxComputeWorkgroupSizeX") == "max-compute-workgroup-size-x"
    with pytest.raises(LimitError, match=r"'max-buffers' for compute\. Did you mean 'max-buffer-size'\? .* max-bind-g"):
        limit_name("max-buffers")
