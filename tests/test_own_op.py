"""A user's own op, by the hook and by `--webgpu-op=module:function`; no formula for its bound is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .test_collect import QUICK, kernel

OP = """
import torch
from jaxtyping import Float
from torch import Tensor
from pytest_webgpu.ops.contract import op

@op
def scaled_sine(x: Float[Tensor, "n"], scale: float = 3.0) -> Float[Tensor, "n"]:
    return scale * torch.sin(x / (1 + x.abs()))
"""
WGSL = """
//! op = "scaled_sine"
//! workgroups = ["ceil_div(n, 64)"]
//! guarded = true
struct Params { n: u32, scale: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < params.n) { out[id.x] = params.scale * sin(x[id.x] / (1.0 + abs(x[id.x]))); }
}
"""


def test_registered_by_the_hook(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(my_ops=OP)
    pytester.makeconftest("def pytest_webgpu_register_ops(config):\n    import my_ops\n")
    pytester.syspathinsert()
    kernel(pytester, WGSL, "right.wgsl")
    kernel(pytester, WGSL.replace("params.scale *", "params.scale * 1.001 *"), "wrong.wgsl")
    result = pytester.runpytest_inprocess("right.wgsl", "wrong.wgsl", QUICK)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["ConformanceFailure: *: *wrong.wgsl as scaled_sine is wrong"])


def test_named_by_module_and_function(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(other_ops=OP.replace("scaled_sine", "sine_of_mine"))
    pytester.syspathinsert()
    kernel(pytester, WGSL)
    pytester.runpytest_inprocess("mine.wgsl", "--webgpu-op=other_ops:sine_of_mine", QUICK).assert_outcomes(passed=1)
    result = pytester.runpytest_inprocess("mine.wgsl", "--webgpu-op=other_ops:nothing", QUICK)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--webgpu-op=other_ops:nothing: *has no attribute 'nothing'*"])


def test_the_folder_that_pytest_is_called_in_is_looked_in(pytester: pytest.Pytester) -> None:
    """By the program, which unlike `python -m pytest` does not look there itself; and the header leaves the op out."""
    pytester.makepyfile(my_ops=OP)
    kernel(pytester, WGSL.replace('//! op = "scaled_sine"\n', ""))
    program = Path(sys.executable).with_name("pytest")
    result = pytester.run(program, "mine.wgsl", "--webgpu-op=my_ops:scaled_sine", QUICK)
    result.assert_outcomes(passed=1)
