"""The `webgpu` marker, `--webgpu-without` and `--webgpu-limits`."""

from __future__ import annotations

import pytest

from pytest_webgpu.gpu import adapters

MARKED = """
import pytest

@pytest.mark.webgpu(features=["timestamp-query"])
def test_has(): pass

@pytest.mark.webgpu(features=["antigravity"])
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
    result.stdout.fnmatch_lines(["SKIPPED * no antigravity on *", "SKIPPED * max-buffer-size is *, below *, on *"])


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
    result.stdout.fnmatch_lines(["*--webgpu-limits: *'lots'; a limit is an integer*"])
    assert result.ret != 0


def test_the_descriptor_may_be_overridden(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n@pytest.fixture(scope='session')\ndef webgpu_device_descriptor():\n"
        "    return {'limits': None, 'without': {'timestamp-query'}}\n"
    )
    pytester.makepyfile(MARKED)
    pytester.runpytest_inprocess("-k", "has").assert_outcomes(skipped=1, deselected=3)
