"""What stands beside our figures: the same figure from several processes, and fusion where a launch is cheap."""

import torch

from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.performance.cuda_control import COUNTS, OPS, measure_control, rms_norm, rope
from pytest_webgpu.performance.reproduce import Reproduced, Run, measure_reproduced
from pytest_webgpu.performance.stats import Estimate, Fit


def line(b, low, high):
    return Fit(Estimate(b, low, high), Estimate(1e-4, 9e-5, 1.1e-4), b, 1e-4, (1,), (b,))


def run(*processes):
    return Run(tuple(line(*one) for one in processes))


def test_spread_between_runs_and_what_the_intervals_say():
    first, second, third = (1e-5, 9.9e-6, 1.04e-5), (1.02e-5, 1e-5, 1.1e-5), (1.03e-5, 1.01e-5, 1.1e-5)
    near = Reproduced((run(first), run(second), run(third)), 0.05)
    assert 0.0196 < near.spread < 0.0197
    assert near.intervals_say_so
    assert "at most 2.0% away from it: within 5%; the intervals all hold" in str(near)
    slow = (1.2e-5, 1.1e-5, 1.3e-5)
    far = Reproduced((run((1e-5, 9.9e-6, 1.01e-5)), run(slow), run(slow)), 0.05)
    assert not far.intervals_say_so
    assert "MORE than 5%; the intervals not all hold" in str(far)


def test_a_run_of_several_processes_reaches_over_all_of_them():
    one = run((1.2e-5, 1.1e-5, 1.3e-5), (8e-6, 7.9e-6, 8.2e-6), (1.1e-5, 1e-5, 1.15e-5))
    assert (one.b.value, one.b.low, one.b.high, one.b_floor) == (1.1e-5, 7.9e-6, 1.3e-5, 8e-6)


def test_each_process_is_a_fresh_one():
    found = measure_reproduced(choose(), runs=2, processes=2, rounds=3, budget=3.0)
    assert [len(x.lines) for x in found.runs] == [2, 2]
    assert all(line.b.value > 0 for x in found.runs for line in x.lines)


def test_the_ops_of_the_control_are_those_of_the_model():
    x, weight = torch.randn(1, 896), torch.randn(896)
    torch.testing.assert_close(rms_norm(x, weight), torch.nn.functional.rms_norm(x, (896,), weight, 1e-6))
    q = torch.randn(14, 64)
    torch.testing.assert_close(rope(q, torch.ones(64), torch.zeros(64)), q)


def test_both_ways_are_called_equally_often_in_the_same_rounds():
    called = []

    def compiler(op):
        def fused(*tensors):
            called.append(op)
            return op(*tensors)

        return fused

    found = measure_control("cpu", rounds=3, compiler=compiler)
    assert [c.op for c in found] == list(OPS)
    assert [called.count(op) for op, _ in OPS.values()] == [5 * sum(COUNTS)] * len(OPS)
    assert all(len(c.eager.b.per_round) == len(c.fused.b.per_round) == c.gain.rounds == 3 for c in found)
