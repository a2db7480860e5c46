"""Tuning: candidates measured on the device, the best kept on disk and taken by the plan."""

import json

import pytest

torch = pytest.importorskip("torch")

from pytest_webgpu import resources  # noqa: E402
from pytest_webgpu.compiler.autotune import Tuning, calls_of  # noqa: E402
from pytest_webgpu.compiler.build import build  # noqa: E402
from pytest_webgpu.compiler.capture import capture  # noqa: E402
from pytest_webgpu.compiler.choose import Chooser, Tuned  # noqa: E402
from pytest_webgpu.compiler.tune import Candidate, Question, Timed, candidates, fastest, time_candidates  # noqa: E402
from pytest_webgpu.gpu import open_runner  # noqa: E402
from pytest_webgpu.gpu.adapters import choose  # noqa: E402
from pytest_webgpu.kernels.library import Library  # noqa: E402
from pytest_webgpu.ops import contract  # noqa: E402
from pytest_webgpu.qwen2.config import find_model  # noqa: E402


@pytest.fixture(scope="module")
def runner():
    return open_runner(choose(), in_process=True)


@pytest.fixture(scope="module")
def library():
    return Library(resources.folder("wgsl"))


def test_candidates_are_every_combination_that_the_features_allow(library):
    kernels = library.for_op("linear+add")
    plain = candidates(kernels, ())
    assert not any(c.kernel.features for c in plain)
    assert len(candidates(kernels, ("subgroups", "shader-f16"))) > len(plain)
    one = next(k for k in kernels if len(k.header.tune) > 1)
    combinations = 1
    for values in one.header.tune.values():
        combinations *= len(values)
    assert len(candidates([one], one.features)) == combinations


def test_the_slower_candidate_is_found_slower_and_buffers_are_freed(runner, library):
    (kernel,) = (k for k in library.for_op("rms_norm") if k.name == "rms_norm[f32]")
    tried = [Candidate(kernel, {"WG": wg}) for wg in (64, 256)]
    timed = time_candidates(runner, contract.get("rms_norm"), tried, {"rows": 8, "cols": 4096}, {"eps": 1e-6})
    assert {t.candidate.tune["WG"] for t in timed} == {64, 256}
    assert [t.seconds for t in timed] == sorted(t.seconds for t in timed)
    longer = time_candidates(runner, contract.get("rms_norm"), tried[:1], {"rows": 512, "cols": 4096}, {})
    assert longer[0].seconds > timed[0].seconds > 0
    assert time_candidates(runner, contract.get("rms_norm"), [], {"rows": 1, "cols": 4}, {}) == []


def test_tunables_are_tried_only_of_kernels_that_come_near(runner, library, monkeypatch):
    op, dims, scalars = contract.get("linear+add"), {"rows": 64, "k": 256, "n": 64}, {}
    kernels = [k for k in library.for_op("linear+add") if not k.features and "f16x2" not in k.name]
    asked = [Question(op, tuple(kernels), dims, scalars)] * 2
    by_kernel, again = ({t.candidate.kernel.name for t in timed} for timed in fastest(runner, asked))
    assert by_kernel
    assert again
    monkeypatch.setattr("pytest_webgpu.compiler.tune.WORTH", 1.0)
    (best,) = {t.candidate.kernel.name for t in fastest(runner, asked)[0]}
    assert best in {k.name for k in kernels}


def test_what_was_found_is_kept_and_taken(runner, library, tmp_path, monkeypatch):
    model = find_model("tiny")
    bare, constants = model.on_meta()
    captured = capture(bare, 1, 64, constants)
    chooser = Chooser(library, runner.info)
    plan = build(captured, chooser)

    def measured(_runner, questions):
        for q in questions:
            assert all(q.scalars[s.name] is not None for s in q.op.scalars if s.name in q.scalars)
            tried = candidates(q.kernels, runner.info.features)
            yield [Timed(candidate, 1e-6 * (len(tried) - i)) for i, candidate in enumerate(tried)][::-1]

    monkeypatch.setattr("pytest_webgpu.compiler.autotune.fastest", measured)
    found = Tuning(chooser, tmp_path).tune(runner, plan)
    assert len(found) == len(list(calls_of(plan)))
    (file,) = tmp_path.glob("*.json")
    assert len(json.loads(file.read_text())) == len(found)
    monkeypatch.setattr("pytest_webgpu.compiler.autotune.fastest", None)  # the second time nothing is measured
    assert Tuning(chooser, tmp_path).tune(runner, plan) == found
    tuned = build(captured, Chooser(library, runner.info, tuned=found))
    assert {(s.kernel, tuple(s.tune.items())) for s in tuned.steps} == {
        (t.kernel, tuple(t.overrides.items())) for t in found.values()
    }
    assert all(isinstance(t, Tuned) for t in found.values())
