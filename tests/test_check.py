"""Faulty kernels are told, each in the words that lead to its fault; correct ones pass."""

import json
import re
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from pytest_webgpu.conformance.calibrate import findings_of
from pytest_webgpu.conformance.check import ConformanceFailure, Settings, check, run_case
from pytest_webgpu.conformance.execute import Session
from pytest_webgpu.conformance.inputs import Case
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import CompileError, DeadlineExceeded, RunnerDied
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get
from tests.faulty_kernels import ADD, ARGMAX, FAULTS, RIGHT, SOFTMAX, SUM

FEW = Settings(max_examples=3, deadline=10)


@pytest.fixture(scope="module")
def runner():
    opened = open_runner(choose("auto", "wgpu-native", None))
    yield opened
    opened.close()


def held(text, runner, settings=FEW, path="kernels/mine.wgsl"):
    kernel = parse_source(text, Path(path))
    return check(get(kernel.header.op), kernel, runner, settings=settings)


@pytest.mark.parametrize("op", RIGHT)
def test_a_correct_kernel_passes(op, runner):
    report = held(RIGHT[op], runner)
    assert report.cases >= 13
    assert report.headroom < 0.7
    if op != "softmax":  # whose rows near -1e12 leave the maximum open: log-sum-exp rounds by more than f32 can say
        assert not report.unspecified
    assert not report.notes


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told(name, runner):
    text, old, new, words = FAULTS[name]
    assert old in text
    with pytest.raises(ConformanceFailure) as failure:
        held(text.replace(old, new), runner)
    assert words in str(failure.value).splitlines()[0]


def test_the_report_says_everything_that_leads_to_the_fault(runner):
    wrong = SOFTMAX.replace("/ total", "/ (total + 0.01)")
    with pytest.raises(ConformanceFailure) as failure:
        held(wrong, runner)
    text = str(failure.value)
    for part in (
        r"\Awrong value: .*kernels/mine.wgsl as softmax is wrong\n",
        r"worst element  out\[\d+, \d+\]",
        r"got            [\d.e-]+",
        r"wanted         [\d.e-]+",
        r"bound          [\d.e-]+",
        r"error          [\d.e-]+: [\d.e+]+ times the bound, [\d.e+]+ ULP of f32",
        r"bound made of  \w+ \d+%",
        r"sizes          rows=\d+, cols=\d+",
        r"data           [\w-]+, seed \d+",
        r"adapter        .+\(wgpu-native [\d.]+, \w+",
    ):
        assert re.search(part, text), part
    command = re.search(r"again with     pytest kernels/mine.wgsl --webgpu-replay='(.*)'", text)[1]
    assert Case.from_json(command) == failure.value.case
    assert json.loads(command)["dims"]["rows"] <= 2  # simplified


def test_a_replayed_case_fails_alone_and_passes_when_mended(runner):
    text = SUM.replace("i < params.cols", "i < min(params.cols, 64u)")
    with pytest.raises(ConformanceFailure) as failure:
        held(text, runner)
    again = Settings(replay=failure.value.case)
    with pytest.raises(ConformanceFailure, match="wrong value"):
        held(text, runner, again)
    assert held(SUM, runner, again).cases == 1


def test_a_kernel_that_hangs_is_told_and_the_next_one_runs(runner):
    text = ADD.replace("    let i = id.x;", "    let i = id.x;\n    loop { if (out[0] == 1.25) { break; } }")
    with pytest.raises(ConformanceFailure, match=r"\Ahung: .*mine.wgsl as add(?s:.)*again with"):
        held(text, runner, Settings(max_examples=1, deadline=0.5))
    assert held(ADD, runner).cases


def test_a_case_that_is_only_slow_is_run_once_by_itself(runner, monkeypatch):
    run = Session.run

    def slowed(session, cases, deadline=20.0, compiling=20.0):
        variants = sum(len(v) for p, v in cases if max(p.case.dims.values()) > 2000)
        if variants * 5 > deadline:
            raise DeadlineExceeded("The job did not end.")
        return run(session, cases, deadline, compiling)

    monkeypatch.setattr(Session, "run", slowed)
    assert held(SUM, runner, Settings(max_examples=1, deadline=4)).cases
    with pytest.raises(ConformanceFailure, match="hung"):
        held(SUM, runner, Settings(max_examples=1, deadline=1))


def test_a_process_that_dies_once_is_noted_and_one_that_dies_again_is_a_failure(runner, monkeypatch):
    run, deaths = Session.run, []

    def dying(session, cases, deadline=20.0, compiling=20.0):
        if deaths:
            raise deaths.pop()
        return run(session, cases, deadline, compiling)

    monkeypatch.setattr(Session, "run", dying)
    deaths.append(RunnerDied("The job ended its process: SIGSEGV."))
    (note,) = [n for n in held(SUM, runner, Settings(max_examples=1)).notes if "died" in n]
    assert "and not again: The job ended its process: SIGSEGV." in note
    deaths += [RunnerDied("The job ended its process: SIGSEGV.")] * 2
    with pytest.raises(ConformanceFailure, match="took the process down"):
        held(SUM, runner, Settings(max_examples=1))


def test_wgsl_that_does_not_compile(runner):
    with pytest.raises(CompileError) as error:
        held(ADD.replace("a[i] + b[i]", "a[i] + c[i]"), runner)
    assert error.value.details["line"] == 13


def test_more_workgroups_than_a_dimension_has(runner):
    with pytest.raises(KernelError, match=r"mine.wgsl:2.*6553\d workgroups, more than WebGPU's 65535"):
        held(SUM.replace("fold2d(rows)", "rows"), runner)


def test_a_second_dimension_of_workgroups_that_is_ignored(runner):
    text = SUM.replace("group.y * groups.x + group.x", "group.x")
    with pytest.raises(ConformanceFailure, match="not written") as failure:
        held(text, runner, Settings(max_examples=5))
    assert failure.value.case.dims["rows"] > 65535


def test_bits_may_differ_where_the_kernel_says_so(runner):
    text = SUM.replace('op = "sum"', 'op = "sum"\n//! deterministic = false')
    assert held(text, runner).cases
    racing = text.replace("        workgroupBarrier();\n    }\n    if", "    }\n    if")
    with pytest.raises(ConformanceFailure):
        held(racing, runner)


def test_inside_a_test_that_hypothesis_drives(runner):
    seen = []

    @hypothesis.settings(max_examples=1, deadline=None, database=None, phases=[hypothesis.Phase.generate])
    @hypothesis.given(st.just(ARGMAX))
    def theirs(text):
        seen.append(held(text, runner).cases)

    theirs()
    assert seen[0] >= 14


def test_one_case_without_raising(runner):
    kernel = parse_source(ADD.replace("+ b[i]", "- b[i]"))
    verdict = run_case(get("add"), kernel, runner, Case({"n": 5}))
    assert [f.cause for f in verdict.findings] == ["wrong value"]
    assert verdict.elements == 5


def test_a_reference_on_cuda_that_is_not_there(runner, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(RuntimeError, match="--webgpu-reference=cuda: this torch sees no CUDA device"):
        held(ADD, runner, Settings(reference="cuda"))


def test_the_adapter_keeps_what_wgsl_promises(runner):
    assert findings_of(runner) == []


def test_workgroup_memory_over_the_limit_is_refused(runner):
    """naga would let it pass, and most drivers with it."""
    text = ADD.replace("@compute", "var<workgroup> big: array<f32, 5000>;\n@compute")
    with pytest.raises(ConformanceFailure, match="20000 bytes of workgroup memory"):
        held(text.replace("a[i] + b[i]", "a[i] + b[i] + 0.0 * big[i % 5000u]"), runner)


def test_a_failure_in_a_test_of_ones_own_shows_that_tests_line_and_not_our_frames(pytester):
    pytester.makepyfile("""
        def test_it(wgsl):
            wgsl("add.wgsl").check("nope")
    """)
    result = pytester.runpytest_inprocess()
    shown = ['>*wgsl("add.wgsl").check("nope")', "E *no op is named 'nope'*", "*.py:2: ContractError"]
    result.stdout.fnmatch_lines(shown)
    assert "state.py" not in result.stdout.str()


def test_a_nan_has_no_error_in_bounds(runner):
    text, old, new, _ = FAULTS["maximum not subtracted"]
    with pytest.raises(ConformanceFailure, match=r"\Awrong value: NaN") as failure:
        held(text.replace(old, new), runner)
    assert re.search(r"bound          [\d.e-]+$", str(failure.value), re.M)
    assert "nan times" not in str(failure.value)
