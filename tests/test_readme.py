"""What README.md shows works as it stands there."""

import re
from pathlib import Path

import pytest

from .test_collect import QUICK, kernel
from .test_own_op import WGSL

README = Path(__file__).parent.parent / "README.md"


def test_its_kernel_passes(pytester: pytest.Pytester) -> None:
    found = re.search(r"```wgsl\n(//! op = .*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (pytester.path / "my_softmax.wgsl").write_text(found[1])
    result = pytester.runpytest_inprocess("my_softmax.wgsl", "--hypothesis-profile=webgpu-quick")
    result.assert_outcomes(passed=1)


def test_its_own_op_checks_a_kernel(pytester: pytest.Pytester) -> None:
    found = re.search(r"```python\n(from jaxtyping .*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (pytester.path / "my_ops.py").write_text(found[1])
    pytester.syspathinsert()
    kernel(pytester, WGSL)
    pytester.runpytest_inprocess("mine.wgsl", "--webgpu-op=my_ops:scaled_sine", QUICK).assert_outcomes(passed=1)


def test_the_ops_are_listed_with_their_names(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--webgpu-ops")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["rms_norm(x: Float?rows cols?, weight: Float?cols?, eps=1e-06) -> out: *", "    Root mean square*"]
    )
