"""The first wrong dispatch of a model is named: op, layer, kernel and element."""

import re

import pytest

from pytest_webgpu import resources
from pytest_webgpu.compiler.build import PlanCache
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.qwen2.blame import first_wrong
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.generate import Generator

TINY = find_model("tiny")
PROMPT = TINY.drawn_prompt(20)


@pytest.fixture(scope="module")
def runner():
    made = open_runner(choose(), in_process=True)
    yield made
    made.close()


def generator(runner, folder, *edits, dtype="f32"):
    """tiny by the shipped kernels, those of one op edited."""
    library = Library(resources.folder("wgsl"))
    if edits:
        op, old, new = edits
        wrong = [k for k in library.for_op(op) if old in k.text]
        assert wrong
        swaps = [v for k in {k.path: k for k in wrong}.values()
                 for v in parse_source(k.path.read_text().replace(old, new), k.path).variants()]  # fmt: skip
        library = library.with_swaps(swaps)
    return Generator(TINY, runner, dtype, capacity=64, chunks=(16,), library=library, cache=PlanCache(folder))


@pytest.mark.parametrize("dtype", ["f32", "f16", "q4"])
def test_nothing_is_blamed_where_all_is_right(runner, tmp_path, dtype):
    assert first_wrong(generator(runner, tmp_path, dtype=dtype), PROMPT) is None


EDITS = {
    r"argmax\+advance by argmax\+advance .*position\[0\]": ("argmax+advance", "position[0] + 1u", "position[0] + 2u"),
    r"is 1 of .* 16 tokens: embedding by embed": ("embedding", "ids[i / params.cols]", "(ids[i / params.cols] ^ 1u)"),
    r"attention by attention.decode .*layer 0, .* its bound": ("attention", "= weighted;", "= 1.001 * weighted;"),
}


@pytest.mark.parametrize(("words", "edits"), EDITS.items(), ids=["argmax", "embedding", "attention"])
def test_the_first_wrong_dispatch_is_named(runner, tmp_path, words, edits):
    found = first_wrong(generator(runner, tmp_path, *edits), PROMPT)
    assert found is not None
    assert re.search(words, str(found)), str(found)
