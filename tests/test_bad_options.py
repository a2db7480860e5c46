"""Options that make no sense: a usage error at the start, exit code 4, and no kernel called wrong for them."""

from __future__ import annotations

import pytest
import torch

from pytest_webgpu import options, usage
from pytest_webgpu.conformance.inputs import Case, misfit
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get

from .test_collect import ADD, QUICK, kernel

DEEP = "[" * 2000 + "]" * 2000
DIMS = ("--webgpu-bench",)

BAD = [
    (["--webgpu-gate-processes=²"], "--webgpu-gate-processes: '²' is no integer from 1"),
    (["--webgpu-gate-processes=0"], "'0' is no integer from 1"),
    (["--webgpu-most-mutants=few"], "--webgpu-most-mutants: 'few' is no integer from 1"),
    (["--webgpu-tune=WG=abc"], "--webgpu-tune=WG=abc: 'abc' is no integer"),
    (["--webgpu-header=op ="], "--webgpu-header: Invalid value"),
    ([f"--webgpu-header=op = {DEEP}"], "--webgpu-header: maximum recursion depth"),
    (["--webgpu-header=guarded = " + "1" * 5000], "--webgpu-header: Exceeds the limit"),
    (['--webgpu-preprocess="unclosed {file}'], "No closing quotation"),
    (["--webgpu-preprocess= "], "--webgpu-preprocess names no command"),
    (["--webgpu-replay=no"], "--webgpu-replay=no: a case is JSON like"),
    (["--webgpu-replay="], "--webgpu-replay=: a case is JSON like"),
    (["--webgpu-replay=[]"], "a case is JSON like"),
    ([f"--webgpu-replay={DEEP}"], "a case is JSON like"),
    (['--webgpu-replay={"dims": {"n": -5}}'], "n of the dims is -5; it is an integer from 0"),
    (['--webgpu-replay={"dims": {"n": 1.5}}'], "n of the dims is 1.5; it is an integer"),
    (['--webgpu-replay={"dims": [3]}'], "dims is [3]; write names and numbers"),
    (['--webgpu-replay={"dims": {"n": 1}, "seed": -1}'], "seed of the case is -1"),
    (['--webgpu-replay={"dims": {"n": 1}, "scalars": {"eps": "x"}}'], "eps of the scalars is 'x'; it is a number"),
    (['--webgpu-replay={"dims": {"n": 1}, "pattern": "nice"}'], "no pattern 'nice'; there are normal, uniform"),
    (["--webgpu-without=subgroup"], "no feature named 'subgroup'. Did you mean 'subgroups'? The features are: bgra8"),
    (["--webgpu-limits=max-bind-groups=-1"], "--webgpu-limits=max-bind-groups=-1: '-1' is no integer from 0"),
    (["--webgpu-limits=max-bind-group=4"], "Did you mean 'max-bind-groups'? The limits are: max-bind-groups"),
    (["--webgpu-limits=max,max-bind-groups=4"], "give it alone"),
    (["--webgpu-dims=n=4"], "--webgpu-dims says where to time, which needs --webgpu-bench"),
    ([*DIMS, "--webgpu-dims=n=many"], "--webgpu-dims=n=many: n: 'many' is no integer from 1"),
    ([*DIMS, "--webgpu-dims=n=0"], "'0' is no integer from 1"),
    ([*DIMS, "--webgpu-dims=n=-4"], "'-4' is no integer from 1"),
    ([*DIMS, "--webgpu-dims=n"], "'n' is not NAME=INTEGER"),
    ([*DIMS, "--webgpu-dims=n=1,n=2"], "n is given twice"),
]


@pytest.mark.parametrize(("args", "words"), BAD, ids=[args[-1][:60] for args, _ in BAD])
def test_said_at_the_start(pytester: pytest.Pytester, args: list[str], words: str) -> None:
    settings = options.resolve(pytester.parseconfig(*args), {})
    with pytest.raises(pytest.UsageError) as caught:
        usage.check(settings)
    assert words in str(caught.value)


def test_what_is_right_passes(pytester: pytest.Pytester) -> None:
    usage.check(options.resolve(pytester.parseconfig(
        "--webgpu-gate-processes=5", "--webgpu-tune=WG=-64", "--webgpu-preprocess=cpp -P '{file}'",
        '--webgpu-replay={"dims": {"n": 0}, "scalars": {"eps": 0.5}, "tune": {"WG": 64}}', "--webgpu-without=subgroups",
        "--webgpu-limits=maxBufferSize=1024,max_bind_groups=2", "--webgpu-bench", "--webgpu-dims=n=1, m=2",
    ), {}))  # fmt: skip


def test_exit_code_4_before_collection(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess("mine.wgsl", "--webgpu-header=op =", QUICK)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --webgpu-header: " in result.stderr.str()
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_reference_on_cuda_that_is_not_there(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = options.resolve(pytester.parseconfig("--webgpu-reference=cuda"), {})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    usage.check(settings)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(pytest.UsageError, match="--webgpu-reference=cuda: this torch sees no CUDA device"):
        usage.check(settings)


FOLDED = ADD.replace('"ceil_div(n, 64)"]', '"fold2d(ceil_div(n, 64))"]\n//! requires = ["n != 7"]')


@pytest.mark.parametrize(("case", "words"), [
    (Case({"m": 4}), "add has no dim 'm': it has n"),
    (Case({}), "no value for n, which add needs"),
    (Case({"n": 4}, {"eps": 1.0}), "add has no scalar 'eps': it has none"),
    (Case({"n": 4}, tune={"WG": 64}), "add has no [tune] 'WG': it has none"),
    (Case({"n": 7}), '"n != 7" does not hold: n = 7'),
    (Case({"n": 1 << 40}), "a would be 4398046511104 bytes, and WebGPU binds 134217728"),
])  # fmt: skip
def test_a_case_of_another_op(case: Case, words: str) -> None:
    assert words in str(misfit(case, get("add"), parse_source(FOLDED)))
    assert misfit(Case({"n": 4}), get("add"), parse_source(FOLDED)) is None


def test_a_replay_of_another_op_calls_no_kernel_wrong(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess("mine.wgsl", '--webgpu-replay={"dims": {"m": 4}}')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["--webgpu-replay: add has no dim 'm': it has n"])
    result.stdout.no_fnmatch_line("*WRONG*")


def test_dims_that_the_op_has_not(pytester: pytest.Pytester) -> None:
    kernel(pytester, ADD)
    result = pytester.runpytest_inprocess("mine.wgsl", "-k", "speed", "--webgpu-bench", "--webgpu-dims=n=64,nn=2")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*ContractError: add has no dim 'nn': did you mean \"n\"? its dims and scalars are n"])
