"""--webgpu-kernel: what the user's kernel does to a token's time, paired, and where it does nothing."""

from __future__ import annotations

import pytest

from pytest_webgpu import resources
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.kernels.source import read_source
from pytest_webgpu.performance.swap import measure_swap
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.generate import Generator


@pytest.fixture
def swapped(tmp_path):
    """A generator of `tiny` with a copy of a shipped kernel as the user's own."""
    runner = open_runner(choose())
    made = []

    def of(name):
        mine = tmp_path / "mine.wgsl"
        mine.write_text((resources.folder("wgsl") / f"{name}.wgsl").read_text() + "\n// mine\n")
        library = Library(resources.folder("wgsl")).with_swaps([read_source(mine)])
        made.append(Generator(find_model("tiny"), runner, "f32", "all", 32, library=library))
        return made[-1]

    yield of
    for one in made:
        one.close()
    runner.close()


def test_a_kernel_of_every_token_is_timed_against_the_plan_without_it(swapped):
    found = measure_swap(swapped("attention.decode"), 4, 4, rounds=3)
    assert found.kernels == ("mine",)
    assert found.steps == find_model("tiny").layers
    assert found.gain.rounds == 3
    assert found.before > 0


def test_a_kernel_that_no_token_runs_has_no_effect_to_show(swapped):
    assert measure_swap(swapped("top_k"), 4, 4, rounds=3) is None
