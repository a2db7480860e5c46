"""Layers between the API and a framework, each less the one before."""

import itertools
import time

import pytest

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.performance.framework import COMPILED, LAYERS, compiled_calls, measure_framework


def test_layers_are_told_apart():
    runner = open_runner(choose())
    try:
        eager = {n: lambda n=n: time.sleep(2e-3 + 1e-3 * n) for n in (1, 5, 20)}
        layers = measure_framework(runner, calls={"eager op": eager}, rounds=3)
    finally:
        runner.close()
    assert [one.name for one in layers] == [*LAYERS, "eager op"]
    assert (layers[0].more_a, layers[0].more_b) == (0, 0)
    for before, one in itertools.pairwise(layers):
        assert one.more_b == pytest.approx(one.line.b.value - before.line.b.value)
        assert one.more_a == pytest.approx(one.line.a.value - before.line.a.value)
    assert layers[2].more_a > 0, "a job crosses to another process"
    assert layers[3].line.b.value >= 1e-3


def test_a_compiled_call_is_a_layer():
    runner = open_runner(choose())
    try:
        with compiled_calls(runner, (1, 50, 150)) as calls:
            assert [calls[n]().unique().tolist() for n in calls] == [[1], [50], [150]]
            layers = measure_framework(runner, calls={COMPILED: calls}, rounds=3)
    finally:
        runner.close()
    assert [one.name for one in layers] == [*LAYERS, COMPILED]


def test_compiled_calls_can_be_had_for_one_runner_after_another():
    runner = open_runner(choose())
    try:
        for _ in range(5):
            with compiled_calls(runner, (1, 2)) as calls:
                assert [calls[n]().unique().tolist() for n in calls] == [[1], [2]]
    finally:
        runner.close()
