"""A step as a graph: repeated layers equal captured ones, and what cannot be captured is said."""

import pytest
import torch
from torch import fx

from pytest_webgpu.compiler.capture import Captured, capture
from pytest_webgpu.compiler.errors import CompilerError, Unsupported
from pytest_webgpu.compiler.fuse import fuse
from pytest_webgpu.compiler.graph import role_of
from pytest_webgpu.compiler.layers import alike
from pytest_webgpu.compiler.positions import Positional
from tests.steps import CAPACITY, deeper, ops, step


def described(captured: Captured):
    """Every call with its arguments by number, placeholders by role: equal for graphs that are the same."""
    numbers: dict[fx.Node, object] = {}
    calls = []
    for node in captured.graph.nodes:
        role = role_of(node)
        numbers[node] = role.name if role else len(calls)
        if role is None and node.op != "output":
            calls.append((node.target, fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: numbers[n])))
    result = [numbers[n] for n in next(n for n in captured.graph.nodes if n.op == "output").args[0]]
    return calls, dict(zip(captured.outputs, result, strict=True))


@pytest.mark.parametrize("tokens", [1, 16])
def test_two_layers_repeated_are_four_captured(tokens):
    assert described(step(tokens, layers=4)) == described(step(tokens, layers=4, fold=False))


def test_keeps_whole_operations_and_names():
    calls, outputs = described(step(1))
    targets = [str(target) for target, _ in calls]
    assert targets.count("aten.scaled_dot_product_attention.default") == 2
    assert targets.count("aten.linear.default") == 2 * 7 + 1
    assert set(outputs) == {"k_0", "k_1", "v_0", "v_1", "logits"}
    roles = {r.name: r.kind for n in step(1).graph.nodes if (r := role_of(n)) is not None}
    assert roles["model.embed_tokens.weight"] == "weight"  # the tied lm_head bears the checkpoint's name
    assert "lm_head.weight" not in roles
    assert roles["model.rotary_emb.inv_freq"] == "constant"


def test_layers_that_differ_are_not_alike():
    bare, _ = deeper(3).on_meta()
    assert alike(bare.model.layers)
    bare.model.layers[2].self_attn.scaling = 1.0
    assert not alike(bare.model.layers)


def test_layers_that_differ_are_all_captured():
    bare, constants = deeper(3).on_meta()
    bare.model.layers[2].self_attn.scaling = 1.0
    captured = capture(bare, 1, CAPACITY, constants)
    lowered, _ = fuse(captured)
    scales = [n.kwargs["scale"] for n in lowered.graph.nodes if "scale" in n.kwargs]
    assert scales == [0.25, 0.25, 1.0]


def test_more_tokens_than_the_cache_has():
    bare, constants = deeper(2).on_meta()
    with pytest.raises(CompilerError, match="65 tokens does not fit a cache of 64"):
        capture(bare, 65, CAPACITY, constants)


def test_buffer_without_value():
    bare, _ = deeper(2).on_meta()
    with pytest.raises(CompilerError, match=r"rotary_emb\.inv_freq lies on meta: give its value in `constants`"):
        capture(bare, 1, CAPACITY)


def test_sliding_window_is_refused_with_the_line():
    sliding = step(1, use_sliding_window=True, sliding_window=8, max_window_layers=0)
    with pytest.raises(Unsupported, match=r"mask is not causal over the cache: File \".*modeling_qwen2|sdpa"):
        ops(sliding)


@pytest.mark.parametrize("tokens", [1, 16, 24])
def test_table_has_a_row_for_each_position(tokens):
    """24 does not divide 64: the last rows come from a chunk that overlaps."""
    captured = step(tokens)
    values = Positional(captured.graph, tokens, CAPACITY)
    cos = next(n for n in captured.graph.nodes if str(n.target) == "aten.cos.default")
    inverse = next(r.value for n in captured.graph.nodes if (r := role_of(n)) and r.name.endswith("inv_freq"))
    angles = torch.arange(CAPACITY)[:, None] * inverse
    assert torch.equal(values.table(cos), torch.cat([angles, angles], 1).cos())
