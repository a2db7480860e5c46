"""What a plan issues and does, on one made by hand."""

import pytest

from pytest_webgpu import resources
from pytest_webgpu.compiler.plan import Buffer, Pass, Plan, Ref, Step
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.performance.model import Token
from pytest_webgpu.performance.plan_work import candidates, token
from pytest_webgpu.performance.work import Work

LIBRARY = Library(resources.folder("wgsl"))
ONE = Pass("main", (1, 1, 1), {}, (), (), 0)


def buffer(name, storage, *shape):
    return Buffer(name, "activation", storage, shape, 0)


@pytest.fixture
def plan():
    """linear with f16 weights twice, then attention whose position is on the device."""
    kernel = next(k for k in LIBRARY.for_op("linear") if k.name == "linear.gemv.f16x2")
    linear = Step(
        "linear", "body", "", {"rows": 1, "k": 64, "n": 32}, {}, {},
        {"x": Ref("x", 0, (1, 64)), "weight": Ref("w", 0, (32, 64))}, {"out": Ref("y", 0, (1, 32))},
        kernel.name, kernel.sha, {}, (ONE,),
    )  # fmt: skip
    attention = Step(
        "attention", "body", "",
        {"tokens": 1, "heads": 4, "head_dim": 16, "kv_heads": 2, "capacity": 64}, {"scale": 0.25},
        {"start": Ref("position", 0, (1,))},
        {"q": Ref("q", 0, (1, 4, 16)), "k": Ref("k", 0, (2, 64, 16)), "v": Ref("v", 0, (2, 64, 16))},
        {"out": Ref("o", 0, (1, 4, 16))}, "swapped", "unknown", {}, (ONE, ONE),
    )  # fmt: skip
    buffers = [buffer("x", "f32", 64), buffer("w", "f16x2", 2048), buffer("y", "f32", 32), buffer("q", "f32", 64),
               buffer("k", "f16x2", 2048), buffer("v", "f16x2", 2048), buffer("o", "f32", 64)]  # fmt: skip
    named = {b.name: b for b in buffers}
    return Plan(1, 64, "f16", (), named, (linear, linear, attention), {}, Ref("y", 0, (1, 32)))


def test_a_token_is_its_dispatches_and_the_work_of_its_steps(plan):
    linear = Work(64 * 4 + 2048 * 2 + 32 * 4, 2 * 64 * 32)
    attention = Work(64 * 4 + 2 * (2 * 11 * 16) * 2 + 64 * 4, 4 * 4 * 16 * 11)
    assert token(plan, start=10) == Token(4, linear + linear + attention)
    assert token(plan, start=0).work.bytes < token(plan, start=10).work.bytes


def test_the_kernels_that_it_runs_and_how_often(plan):
    ((candidate, count),) = candidates(plan, LIBRARY.all(), start=10)
    assert (candidate.key, count) == ("linear.gemv.f16x2 rows=1,k=64,n=32", 2)
