"""Fusions added in turn: which levels there are, what they issue, and what they must not change."""

import numpy as np
import pytest

from pytest_webgpu.compiler.errors import UnknownFusion
from pytest_webgpu.compiler.fuse import FUSIONS
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.performance.ablation import distance, levels, measure_ablation
from pytest_webgpu.performance.work import Tensor, work_of
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.generate import Generation


def test_each_fusion_is_added_in_turn():
    every = levels()
    assert every[0].text == "none"
    assert set(every[-1].fusions) == set(FUSIONS)
    assert [len(level.fusions) for level in every] == list(range(len(FUSIONS) + 1))
    assert [level.name for level in levels("rope,rms_norm")] == ["none", "+ rms_norm", "+ rope"]
    with pytest.raises(UnknownFusion, match="no fusion is named warp"):
        levels("warp")


def generation(tokens, logits):
    return Generation(tokens, 1, 0.0, 0.0, 0.0, logits=np.asarray(logits, np.float32))


def test_logits_are_compared_up_to_the_first_token_that_differs():
    unfused = generation([1, 0, 1], [[0, 1], [2, 1], [0, 3]])
    assert distance(unfused, generation([1, 0, 1], [[0, 1], [2, 1], [0, 3.5]])) == (0.5, 3)
    assert distance(unfused, generation([1, 1, 0], [[0, 1.25], [2, 2], [9, 0]])) == (1.0, 2)
    assert distance(unfused, generation([1, 0, 1], [[0, np.nan], [2, 1], [0, 3]])) == (np.inf, 3)


def test_a_piece_of_an_embedding_reads_one_row_of_its_weight():
    tensors = [Tensor("weight", (30400, 896), 4 * 30400 * 896), Tensor("out", (1, 896), 4 * 896)]
    assert work_of("embedding_piece", {"rows": 1, "vocab": 30400, "cols": 896}, tensors).bytes == 8 * 896


def test_a_ladder_of_the_tiny_model():
    runner = open_runner(choose())
    try:
        found = measure_ablation(runner, find_model("tiny"), "f32", levels("rms_norm"), new_tokens=3, rounds=2)
    finally:
        runner.close()
    none, fused = found.rungs
    assert none.dispatches > fused.dispatches
    assert none.gain is None
    assert fused.gain == fused.gain_on_none
    assert fused.gain is not None
    assert fused.gain.rounds == 2
    assert fused.apart < 1e-4
    assert fused.compared == 3
    assert found.seconds_a_dispatch(none) is None
