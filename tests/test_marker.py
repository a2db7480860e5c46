"""The `webgpu` marker, `--webgpu-without` and `--webgpu-limits`."""

from __future__ import annotations

import pytest

from pytest_webgpu.gpu import adapters

MARKED = """
import pytest

@pytest.mark.webgpu(features=["timestamp-query"])
def test_has(): pass

@pytest.mark.webgpu(features=["texture-compression-etc2"])
def test_feature(): assert False

@pytest.mark.webgpu(limits={"max-compute-workgroup-storage-size": 16384})
def test_limit(): pass

@pytest.mark.webgpu(limits={"max-buffer-size": 1 << 60})
class TestClass:
    def test_limit_of_the_class(self): assert False
"""


def test_skipped_with_the_name_of_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MARKED)
    result = pytester.runpytest_inprocess("-rs")
    result.assert_outcomes(passed=2, skipped=2)
    lines = ["SKIPPED * no texture-compression-etc2 on *", "SKIPPED * max-buffer-size is *, below *, on *"]
    result.stdout.fnmatch_lines(lines)


def test_a_lesser_device_skips_more(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MARKED)
    result = pytester.runpytest_inprocess(
        "-rs", "--webgpu-without=timestamp-query", "--webgpu-limits=max-compute-workgroup-storage-size=8192"
    )
    assert result.ret == 6  # nothing was left to run
    result.assert_outcomes(skipped=4)
    name = adapters.choose().info.adapter
    lines = [
        "SKIPPED * no timestamp-query on *",
        f"SKIPPED * max-compute-workgroup-storage-size is 8192, below * {name}*",
    ]
    result.stdout.fnmatch_lines_random(lines)


def test_a_limit_that_is_no_number(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MARKED)
    result = pytester.runpytest_inprocess("--webgpu-limits=max-buffer-size=lots")
    result.stderr.fnmatch_lines(["*--webgpu-limits=max-buffer-size=lots: 'lots' is no integer from 0"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


UNKNOWN = """
import pytest

@pytest.mark.webgpu(features=["timestamp-queries"])
def test_feature(): pass

@pytest.mark.webgpu(limits={"maxBufferSize": 1})
def test_limit(): pass

@pytest.mark.webgpu("timestamp-query")
def test_by_place(): pass
"""


def test_names_that_webgpu_has_not_fail(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(UNKNOWN)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines([
        "*webgpu: WebGPU has no feature named 'timestamp-queries'. Did you mean 'timestamp-query'? The features are: *",
        "*webgpu: There is no limit named 'maxBufferSize' for compute. * The limits are: max-bind-groups*",
        "*webgpu: it takes features=[[]...] and limits={...}, not 'timestamp-query'",
    ])  # fmt: skip


def test_the_descriptor_may_be_overridden(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n@pytest.fixture(scope='session')\ndef webgpu_device_descriptor():\n"
        "    return {'limits': None, 'without': {'timestamp-query'}}\n"
    )
    pytester.makepyfile(MARKED)
    pytester.runpytest_inprocess("-k", "has").assert_outcomes(skipped=1, deselected=3)
