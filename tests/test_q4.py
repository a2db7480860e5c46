"""Weights in blocks of 32 numbers of 4 bits: what rounding loses, how they are laid out, and models on them."""

from math import prod

import numpy as np
import pytest

from pytest_webgpu import resources
from pytest_webgpu.compiler.build import build
from pytest_webgpu.compiler.choose import Chooser
from pytest_webgpu.compiler.load import pieces
from pytest_webgpu.compiler.plan import Buffer, Rows, bytes_of
from pytest_webgpu.compiler.quantise import LEAST_SCALE, NotQuantisable, dequantise, held, quantise
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.reference import judge, logits_after, transformers_model
from tests.steps import continued, device, step

TINY = find_model("tiny")
LIBRARY = Library(resources.folder("wgsl"))
DRAW = np.random.default_rng(0)
BLOCKS = {
    "normal": DRAW.standard_normal((64, 96)),
    "small": 0.02 * DRAW.standard_normal((64, 96)),
    "positive": DRAW.uniform(3, 4, (8, 64)),
    "negative": DRAW.uniform(-4, -3, (8, 64)),
    "one far away": np.where(np.arange(64) == 7, 1000.0, DRAW.standard_normal((8, 64))),
    "constant": np.full((2, 32), 0.7),
    "large": DRAW.uniform(-4e5, 4e5, (8, 64)),
    "zero": np.zeros((3, 32)),
    "nearly zero": 1e-7 * DRAW.standard_normal((3, 32)),
}


@pytest.mark.parametrize("values", BLOCKS.values(), ids=BLOCKS)
def test_no_value_is_off_by_more_than_half_a_step(values):
    values = values.astype(np.float32)
    kept = held(values)
    blocks = values.reshape(-1, 32)
    wanted = (np.maximum(blocks.max(1), 0) - np.minimum(blocks.min(1), 0)) / 15
    step = np.maximum(wanted * (1 + 2.0**-10), LEAST_SCALE)[:, None]  # the scale is rounded up to f16
    assert (np.abs(kept.reshape(-1, 32) - blocks) <= 0.5 * step * (1 + 1e-5)).all()
    assert (kept[values == 0] == 0).all()


def test_the_layout_is_that_of_the_storage():
    """Half of i mod 16: a scale of 0.5, and nibbles that count, the lowest first."""
    words = quantise(0.5 * (np.arange(64, dtype=np.float32) % 16).reshape(1, 64) - np.repeat([0, 1.5], 32))
    low, high = 0x76543210, 0xFEDCBA98
    half, three = 0x3800, 0x4200  # as f16
    assert words.tolist() == [[half, low, high, low, high, half | three << 16, low, high, low, high]]
    assert dequantise(words, 64)[0, 32:35].tolist() == [-1.5, -1.0, -0.5]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e6])
def test_what_has_no_scale_is_refused_by_name(wrong):
    values = np.ones((4, 64), np.float32)
    values[3, 40] = wrong
    with pytest.raises(NotQuantisable, match="not finite, or its range is too wide"):
        quantise(values)

    class Given:
        def read(self, name, first, count):
            return values[first : first + count]

    buffer = Buffer("w", "weight", "q4_32", (4, 64), bytes_of("q4_32", 256), (Rows("w", 0, 4),))
    with pytest.raises(NotQuantisable, match=r"^w: .* take f16 or f32"):
        list(pieces(Given(), buffer))


def test_rows_must_be_whole_blocks():
    with pytest.raises(NotQuantisable, match="rows of 48 weights are no whole number of blocks of 32"):
        quantise(np.zeros((2, 48), np.float32))
    with pytest.raises(NotQuantisable, match=r"layers.\d.mlp.down_proj.weight: rows of 200 .* take f16 or f32"):
        build(step(1, intermediate_size=200), Chooser(LIBRARY, device(), "q4"))


class Recorded:
    """Two tensors, and the most floats that were read of one at a time."""

    def __init__(self):
        self.tensors = {"a": DRAW.standard_normal((33, 64)), "b": DRAW.standard_normal((70, 64)).astype(np.float16)}
        self.most = 0

    def read(self, name, first, count):
        self.most = max(self.most, count * 64)
        return self.tensors[name][first : first + count]


@pytest.mark.parametrize("most", [4 * 64 * 2, 10_000, 1 << 20])
def test_loading_in_pieces_equals_the_whole(most):
    weights = Recorded()
    buffer = Buffer("w", "weight", "q4_32", (96, 64), bytes_of("q4_32", 96 * 64), (Rows("a", 0, 33), Rows("b", 7, 63)))
    sent = bytearray(buffer.size)
    end = 0
    for offset, data in pieces(weights, buffer, most):
        assert offset == end
        end += len(data)
        sent[offset:end] = data
    assert end == buffer.size
    assert 4 * weights.most <= most
    whole = np.concatenate([weights.tensors["a"].astype(np.float32), weights.tensors["b"][7:].astype(np.float32)])
    assert sent == quantise(whole).tobytes()


@pytest.mark.parametrize("tokens", [1, 16])
def test_a_plans_matrices_take_20_bytes_for_32_weights(tokens):
    plan = build(step(tokens), Chooser(LIBRARY, device(), "q4"))
    weights = [b for b in plan.buffers.values() if b.kind == "weight"]
    assert {b.storage for b in weights if len(b.shape) == 2} == {"q4_32"}
    assert {b.storage for b in weights if len(b.shape) == 1} == {"f32"}
    assert {b.storage for b in plan.buffers.values() if b.kind == "cache"} == {"f16x2"}
    assert {b.storage for b in plan.buffers.values() if b.kind == "constant"} == {"f32"}
    matrices = [s for s in TINY.weights.shapes.values() if len(s) == 2]
    assert sum(b.size for b in weights if len(b.shape) == 2) == sum(20 * prod(s) // 32 for s in matrices)


@pytest.mark.parametrize("largest", [1 << 27, 16 << 10], ids=["whole", "table in pieces"])
def test_a_plan_by_the_contracts_is_right(largest):
    """The table and the tied head are cut by rows where a binding cannot hold them."""
    info = device(max_storage_buffer_binding_size=largest)
    plans = {n: build(step(n), Chooser(LIBRARY, info, "q4")) for n in (1, 16)}
    assert ("embedding_piece" in {s.op for s in plans[1].steps}) == (largest < 1 << 27)
    prompt = TINY.drawn_prompt(9)
    tokens, logits = continued(plans, TINY.weights, prompt, 6)
    verdict = judge(TINY, prompt, tokens, logits, "q4")
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("stored", ["f32", "f16"])
def test_the_bound_tells_other_weights(stored):
    """Logits of the weights as they were are wrong: what 4 bits lose is neither counted nor hidden."""
    prompt = TINY.drawn_prompt(9)
    logits = logits_after(transformers_model(TINY, "f64", stored=stored), prompt, 8)
    verdict = judge(TINY, prompt, logits.argmax(-1).tolist(), logits.numpy(), "q4")
    assert not verdict.ok
    assert verdict.ratio > 100


@pytest.mark.parametrize("features", [(), ("subgroups",)], ids=["", "subgroups"])
def test_every_fusion_of_f16_is_one_of_q4(features):
    """The same ops in the same order, and one buffer of each weight for the prompt and for the tokens after it."""
    names = set()
    for tokens in (1, 16):
        ops = {}
        for dtype in ("f16", "q4"):
            plan = build(step(tokens), Chooser(LIBRARY, device(features), dtype))
            ops[dtype] = [s.op for s in plan.steps]
        assert ops["q4"] == ops["f16"]
        names |= {b.name for b in plan.buffers.values() if b.kind == "weight" and b.storage == "q4_32"}
        of_weights = [s.kernel for s in plan.steps if "weight" in s.arguments and "linear" in s.op]
        assert of_weights
        assert all(".q4_32" in kernel for kernel in of_weights)
        assert all((".subgroups" in kernel) == bool(features) for kernel in of_weights if tokens == 1)
    assert len(names) == 1 + 2 * 4  # the table, and of a layer qkv, the output's, gate and up, down
