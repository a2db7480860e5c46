"""What is seen when a shipped kernel is broken: the case, the adapter, and the command that shows it again."""

from __future__ import annotations

import re
import shlex

import pytest

from pytest_webgpu import resources

from .test_collect import QUICK


def test_without_its_barrier_rms_norm_is_wrong(pytester: pytest.Pytester) -> None:
    text = (resources.folder("wgsl") / "rms_norm.wgsl").read_text()
    assert "workgroupBarrier();" in text
    broken = pytester.path / "rms_norm.wgsl"
    broken.write_text(text.replace("workgroupBarrier();", ""))
    result = pytester.runpytest_inprocess(str(broken), "-k", "f32", QUICK)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "ConformanceFailure: *rms_norm.wgsl [[]f32] as rms_norm is wrong: *",
            "  worst element  *",
            "  adapter        *",
            "  again with     pytest *rms_norm.wgsl --webgpu-replay=*",
            "  without us     python *reproduce.py",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    command = re.search(r"again with     pytest (.*)", result.stdout.str())
    assert command is not None
    again = pytester.runpytest_inprocess(*shlex.split(command[1]), "-k", "f32")
    again.assert_outcomes(failed=1, deselected=1)
    again.stdout.fnmatch_lines(["ConformanceFailure: *rms_norm.wgsl [[]f32] as rms_norm is wrong: *"])
