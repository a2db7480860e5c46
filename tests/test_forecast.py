"""The cost model forwards: GPUs that are not here, more fusions, more rows."""

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.performance.ablation import levels
from pytest_webgpu.performance.batch import Batch, Step, crossing, measure_batch
from pytest_webgpu.performance.forecast import forecast, tokens_of
from pytest_webgpu.performance.model import CostModel, Token
from pytest_webgpu.performance.predict import measure_parts
from pytest_webgpu.performance.work import Work
from pytest_webgpu.qwen2.config import find_model

COST = CostModel(fixed=0.0, per_dispatch=1e-5, bandwidth=1e12, rate=1e13)


def test_gains_are_against_the_level_before():
    work = Work(10**9, 0)
    none, rope, every = forecast(COST, {"none": Token(900, work), "+ rope": Token(400, work), "all": Token(100, work)})
    assert none.gain == 1
    assert none.tokens_per_second == pytest.approx(100)
    assert rope.gain == pytest.approx(2)
    assert every.gain == pytest.approx(2.5)
    assert every.share_of_dispatches == pytest.approx(0.5)


def test_levels_of_a_model_from_its_shapes():
    tokens = tokens_of(find_model("tiny"), "f32", choose().info, position=8)
    assert list(tokens) == [level.name for level in levels()]
    issued = [token.dispatches for token in tokens.values()]
    assert issued == sorted(issued, reverse=True)
    assert issued[0] > 4 * issued[-1]


def test_rows_between_two_steps():
    one, many = Token(100, Work(10**8, 10**9)), Token(100, Work(10**8, 101 * 10**9))
    assert crossing(COST, one, many, 101) == 9, "1e-4 s of bytes and 1e-4 s a row reach 1e-3 s of dispatches"
    steps = (Step(1, 100, 1.5e-3, 1e-3, 1e-3), Step(16, 100, 2.5e-3, 1e-3, 1e-3))
    assert Batch("m", "f32", steps, 9).measured == 16
    assert Batch("m", "f32", steps[:1], None).measured is None


def test_steps_of_more_rows_on_the_adapter_of_this_machine():
    runner = open_runner(choose())
    try:
        parts = measure_parts(runner, rounds=3, budget=3.0)
        found = measure_batch(runner, find_model("tiny"), "f32", parts, rows=(1, 8))
    finally:
        runner.close()
    assert [s.rows for s in found.steps] == [1, 8]
    assert all(s.seconds > 0 and s.of_dispatches > 0 for s in found.steps)
