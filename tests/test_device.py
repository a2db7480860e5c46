"""`webgpu_device`, the implementation's own object."""

from __future__ import annotations

import pytest

TESTS = """
import logging
import pytest

def test_buffer(webgpu_device):
    buffer = webgpu_device.create_buffer(size=16, usage="STORAGE | COPY_SRC")
    assert bytes(webgpu_device.queue.read_buffer(buffer)) == bytes(16)

@pytest.mark.webgpu(limits={"max-compute-workgroup-storage-size": 32768})
def test_limit(webgpu_device):
    assert webgpu_device.limits["max-compute-workgroup-storage-size"] == 32768

def test_error_of_a_call(webgpu_device):
    webgpu_device.create_shader_module(code="this is no WGSL")

def test_error_that_no_call_raises(webgpu_device):
    logging.getLogger("wgpu").error("Device lost")  # as the implementation does
"""


def test_errors_fail_the_test_in_which_they_came(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-v")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["*test_error_of_a_call?auto? FAILED*", "*test_error_that_no_call_raises?auto? FAILED*"]
    )
    result.stdout.fnmatch_lines(["uncaptured GPU error: Device lost"])


def test_the_device_has_just_the_default_limits_otherwise(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "def test(webgpu_device): assert webgpu_device.limits['max-compute-workgroup-storage-size'] == 16384"
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_lesser_device(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test(webgpu_device): assert 'shader-f16' not in webgpu_device.features")
    pytester.runpytest_inprocess("--webgpu-without=shader-f16").assert_outcomes(passed=1)
