"""Plans: what they compute, without a GPU, and what they bind."""

import dataclasses

import pytest

from pytest_webgpu.compiler.build import build
from pytest_webgpu.compiler.choose import Chooser
from pytest_webgpu.compiler.errors import CompilerError, NoKernel, TooLarge
from pytest_webgpu.compiler.plan import Binding, Plan
from pytest_webgpu.compiler.schedule import _check_aliasing
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.reference import judge
from tests.steps import continued, device, step
from tests.stub_kernels import stub_library

PROMPT = [5, 17, 900, 3, 44, 44, 12]
COMPOSITES = "rms_norm,rope,swiglu,gqa"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return stub_library(tmp_path_factory.mktemp("stubs"))


def plans(library, fusions="all", dtype="f32", **limits):
    chooser = Chooser(library, device(**limits), dtype)
    return {tokens: build(step(tokens), chooser, fusions) for tokens in (1, 16)}


@pytest.mark.parametrize(
    ("fusions", "dtype"),
    [("none", "f32"), (COMPOSITES, "f32"), (f"{COMPOSITES},join_qkv,join_gate_up,rope_cache,residual", "f32"),
     ("all", "f32"), ("none", "f16"), ("all", "f16")],
)  # fmt: skip
def test_computes_what_transformers_does(library, fusions, dtype):
    """Through the plan's own buffers: prefill with a masked tail, then decode."""
    model = find_model("tiny")
    tokens, logits = continued(plans(library, fusions, dtype), model.weights, PROMPT, 6)
    verdict = judge(model, PROMPT, tokens, logits, dtype)
    assert verdict.ok, str(verdict)
    assert verdict.ratio < 1
    assert verdict.decided >= 5


def test_weights_lie_once(library):
    """Tied embeddings and joined products take no second copy; the chunk's plan has the same buffers."""
    made = plans(library)
    held = {b.name: b for plan in made.values() for b in plan.buffers.values() if b.kind == "weight"}
    model = find_model("tiny")
    elements = sum(model.weights.shapes[r.tensor][0] * b.shape[-1] if len(b.shape) > 1 else r.count
                   for b in held.values() for r in b.rows)  # fmt: skip
    assert sum(b.size for b in held.values()) == 4 * elements
    assert sorted(r.tensor for b in held.values() for r in b.rows) == sorted(model.weights.shapes)
    joined = held["model.layers.1.self_attn.q_proj+k_proj+v_proj.weight"]
    assert [(r.tensor.split(".")[-2], r.count) for r in joined.rows] == [("q_proj", 64), ("k_proj", 32), ("v_proj", 32)]


def test_activations_are_recycled(library):
    plan = plans(library, "none")[16]
    used = [b for b in plan.buffers.values() if b.kind == "activation"]
    assert len(plan.steps) > 80
    assert len(used) < 10


@pytest.mark.parametrize("fusions", ["none", "all"])
def test_nothing_is_read_and_written_in_one_dispatch(library, fusions):
    for plan in plans(library, fusions).values():
        for s in plan.steps:
            for p in s.passes:
                storage = [(slot.type, b) for slot, b in zip(p.slots, p.bound, strict=True) if slot.type != "uniform"]
                written = {b.buffer for kind, b in storage if kind == "storage"}
                assert not written & {b.buffer for kind, b in storage if kind == "read-only-storage"}
                assert all(b.offset % 256 == 0 for b in p.bound)
                assert all(b.offset + b.size <= plan.buffers[b.buffer].size for b in p.bound)


def test_aliasing_is_refused():
    one, other = Binding(0, 0, "a", 0, 512), Binding(0, 1, "a", 256, 256)
    apart = Binding(0, 1, "a", 512, 256)
    _check_aliasing("k", [one, apart], [one, apart])
    for bound, writes in (([one, other], [one, other]), ([one, apart], [one])):
        with pytest.raises(CompilerError, match="k would write a and use it elsewhere"):
            _check_aliasing("k", bound, writes)


def test_weights_are_cut_to_what_can_be_bound(library):
    """The embedding, 256,000 bytes, in pieces of rows: gathered from each, and the product a piece at a time."""
    made = plans(library, max_storage_buffer_binding_size=100_000)
    names = [s.op for s in made[1].steps]
    assert names.count("embedding_piece") == names.count("rms_norm+linear") == 3
    assert all(b.size <= 100_000 for b in made[1].buffers.values())
    model = find_model("tiny")
    tokens, logits = continued(made, model.weights, PROMPT, 4)
    assert judge(model, PROMPT, tokens, logits, "f32").ok


def test_what_cannot_be_cut_is_left_apart_or_refused(library):
    """gate and up joined, 98,304 bytes, do not fit; each of them does. With 16 rows no product can be cut."""
    small = plans(library, max_buffer_size=64_000)[1]
    assert any("swiglu" in note and "does not fit a binding" in note for note in small.notes)
    assert "linear+swiglu" not in {s.op for s in small.steps}
    with pytest.raises(TooLarge, match="only a product of one row can be cut"):
        build(step(16, hidden_size=128), Chooser(library, device(max_buffer_size=90_000)))
    with pytest.raises(TooLarge, match=r"down_proj.weight: 64 rows of 192 do not fit a binding of 40000 bytes"):
        build(step(1), Chooser(library, device(max_buffer_size=40_000)))


def test_an_op_without_a_kernel_is_named_with_the_models_line(tmp_path):
    chooser = Chooser(stub_library(tmp_path, leave_out=["attention"]), device())
    with pytest.raises(NoKernel, match=r"no kernel computes attention at .*\n.*has none\nneeded by layer 0, File"):
        build(step(1), chooser)


def test_a_fusion_without_a_kernel_is_not_applied(tmp_path):
    fused = "rms_norm+linear+rope+kv_cache_write"
    plan = build(step(1), Chooser(stub_library(tmp_path, leave_out=[fused]), device()))
    assert [s.op for s in plan.steps][1:3] == ["rms_norm+linear", "rope+kv_cache_write"]
    assert plan.notes[0].startswith(f"2 x qkv_epilogue: no kernel computes {fused}")


def test_a_fusion_is_left_where_its_kernel_is_not_meant_to_run(tmp_path):
    headers = {"rms_norm+linear+swiglu": '//! prefer = ["rows <= 4"]'}
    chooser = Chooser(stub_library(tmp_path, headers=headers), device())
    assert "rms_norm+linear+swiglu" in {s.op for s in build(step(1), chooser).steps}
    chunk = build(step(16), chooser)
    assert "rms_norm+linear+swiglu" not in {s.op for s in chunk.steps}
    assert any("prefers rows <= 4" in note for note in chunk.notes)


def test_plan_as_data(library, tmp_path):
    plan = plans(library)[16]
    plan.save(tmp_path)
    read = Plan.read(tmp_path)
    assert dataclasses.replace(read, constants={}) == dataclasses.replace(plan, constants={})
    assert {k: v.tobytes() for k, v in read.constants.items()} == {k: v.tobytes() for k, v in plan.constants.items()}


@pytest.mark.parametrize("content", ["", "{", '{"schema": 0}', '{"schema": 1, "tokens": 1}'])
def test_a_file_that_is_no_plan(tmp_path, content):
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(CompilerError, match=f"{tmp_path}: "):
        Plan.read(tmp_path)
