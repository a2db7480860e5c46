"""A token's time from parts measured apart: what is added up, what overlaps, and by each kernel's own time."""

import pytest

from pytest_webgpu.compiler.fuse import FUSIONS
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.performance.ablation import Level, measure_ablation
from pytest_webgpu.performance.model import Token
from pytest_webgpu.performance.predict import (
    Beside,
    Parts,
    finding,
    kernels_seconds,
    measure_parts,
    predict,
    predict_rung,
)
from pytest_webgpu.performance.roofline import Roofline
from pytest_webgpu.performance.stats import Estimate, Fit
from pytest_webgpu.performance.work import Work
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.generate import Generator


def exactly(value):
    return Estimate(value, value, value)


def line(a, b):
    return Fit(exactly(b), exactly(a), b, a, (1,), (a + b,))


PARTS = Parts(line(1e-4, 7e-6), line(5e-5, 3e-6), 20e-6, 2e-6, Roofline(exactly(4e12), exactly(2e13)))
TOKEN = Token(150, Work(bytes=10**9, flops=10**9))


def test_parts_added_up_count_host_and_device_twice_over():
    parts = predict(PARTS, TOKEN, 1e-3, tokens=100)["sum"].parts
    assert parts == pytest.approx({"fixed": 21e-6, "dispatches": 1.05e-3, "bytes": 2.5e-4, "flops": 5e-5})


def test_the_longer_of_host_and_device_is_what_a_token_takes():
    ways = predict(PARTS, TOKEN, 1e-3, tokens=100, kernels=0.8e-3)
    assert ways["overlapped"].parts == pytest.approx({"wait": 1e-6, "dispatches on the device": 3e-4, "bytes": 2.5e-4,
                                                      "flops": 5e-5})  # fmt: skip
    assert ways["kernels"].predicted == pytest.approx(0.801e-3)
    assert ways["kernels"].error == pytest.approx(-0.199)
    own = predict(PARTS, TOKEN, 1e-3, tokens=100, kernels=0.8e-3, api=line(1e-4, 9e-6))["kernels"]
    assert own.parts == pytest.approx({"wait": 1e-6, "host": 20e-6 + 150 * 9e-6})
    many = Token(1000, Work(0, 0))
    assert predict(PARTS, many, 1e-3, tokens=100)["overlapped"].parts == pytest.approx({"wait": 1e-6, "host": 3.02e-3})


def test_the_host_is_measured_between_the_rounds_that_it_predicts():
    runner = open_runner(choose())
    beside = Beside(runner, every=2)
    try:
        levels = [Level("none", ()), Level("all", tuple(FUSIONS))]
        found = measure_ablation(runner, find_model("tiny"), "f32", levels, new_tokens=4, rounds=5, between=beside.take)
        then = beside.parts(PARTS)
        assert len(beside.submits) == 3
        assert then.roofline == PARTS.roofline
        assert 0 < then.api.b.value
        assert then.line != PARTS.line
        for index, rung in enumerate(found.rungs):
            assert beside.api(index).b.value > 0
            assert beside.api(index).counts[-1] % rung.dispatches == 0
            assert all(0 < host <= token for host, token in zip(rung.host, rung.token, strict=True))
            told = finding(found, rung, *predict_rung(then, found, rung), beside.device(index))
            assert told["host"] > 0
            assert (told["device"] is None) == ("timestamp-query" not in runner.info.features)
    finally:
        beside.close()
        runner.close()


def test_on_the_adapter_of_this_machine():
    runner = open_runner(choose())
    try:
        parts = measure_parts(runner, rounds=3, budget=3.0)
        assert 0 < parts.api.b.value < parts.line.b.value
        assert parts.device > 0
        generator = Generator(find_model("tiny"), runner, "f32", "all", 32)
        generator.generate([1, 2, 3], 2)
        plan = generator.plan(1)
        assert kernels_seconds(runner, plan, generator.library.all(), 4) > 0
        with pytest.raises(ValueError, match="not among those given"):
            kernels_seconds(runner, plan, generator.library.all()[:1], 4)
    finally:
        runner.close()
