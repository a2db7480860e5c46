"""Cases: sizes that meet every condition, data as stored, and what packs and unpacks."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_webgpu.conformance import packing
from pytest_webgpu.conformance.inputs import Case, cases, fixed_cases, materialise
from pytest_webgpu.conformance.patterns import PATTERNS
from pytest_webgpu.conformance.sizes import table
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import ContractError, get
from pytest_webgpu.ops.launch import launch

ATTENTION = """
@group(0) @binding(0) var<storage, read> q: array<f32>;
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(64) fn main() { out[0] = q[0] + k[0] + v[0]; }
"""


def kernel(text=ATTENTION, op="attention", **header):
    return parse_source(text, Path("k.wgsl"), {"op": op, "workgroups": ["tokens"], **header})


def test_every_case_meets_the_conditions_of_op_and_kernel():
    attention, claims = get("attention"), kernel(requires=["head_dim % 4 == 0", "tokens == 1 or heads >= 2"])
    sizes = table(attention, claims)
    assert len(sizes.drawn) > 60
    for names in (*sizes.fixed, *sizes.drawn):
        assert attention.allows(names)
        assert names["head_dim"] % 4 == 0
        assert names["tokens"] == 1 or names["heads"] >= 2
    grouped = [n for n in sizes.drawn if n["kv_heads"] >= 2 and n["heads"] > n["kv_heads"] and n["start"] > 0]
    assert len(grouped) > 3


def test_conditions_that_nothing_meets():
    with pytest.raises(ContractError, match=r"no sizes meet .*head_dim == 7 and head_dim % 2 == 0"):
        table(get("attention"), kernel(requires=["head_dim == 7 and head_dim % 2 == 0"]))


def test_sizes_around_the_workgroup_and_beyond_a_dimension_of_workgroups():
    text = "@group(0) @binding(0) var<storage, read> x: array<f32>;\n" \
           "@group(0) @binding(1) var<storage, read_write> out: array<f32>;\n" \
           "@compute @workgroup_size(48) fn main() { out[0] = x[0]; }"  # fmt: skip
    sizes = table(get("sum"), kernel(text, "sum", workgroups=["fold2d(rows)"]))
    assert {n["cols"] for n in sizes.fixed} >= {1, 2, 3, 5, 47, 48, 49, 257, 1029, 4864}
    assert {n["rows"] for n in sizes.fixed} >= {1, 2, 3, 13, 47, 49, 97, 896, 4099}
    assert sizes.folded == ({"rows": 65836, "cols": 2}, {})


def test_a_kernel_with_an_optional_binding_that_folds():
    text = """
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read> weight: array<f32>;
    @group(0) @binding(2) var<storage, read> bias: array<f32>; //? bias
    @group(0) @binding(3) var<storage, read_write> out: array<f32>;
    @compute @workgroup_size(8) fn main() {
        out[0] = x[0] + weight[0];
        out[1] = bias[0]; //? bias
    }"""
    claims = kernel(text, "linear", workgroups=["fold2d(n)"], optional=["bias"])
    assert [table(get("linear"), k, software=True).folded[0]["n"] for k in claims.variants()] == [65836, 65836]


def test_few_values_where_each_is_a_pipeline():
    text = ATTENTION + "override head_dim: u32;"
    sizes = table(get("attention"), kernel(text, requires=["head_dim % 4 == 0"]))
    assert {n["head_dim"] for n in (*sizes.drawn, *sizes.fixed)} == {64, 128, 12}


def test_fixed_cases_show_every_pattern_and_every_tunable():
    text = ATTENTION + "override WG: u32 = 64;"
    made = fixed_cases(get("attention"), kernel(text, tune={"WG": [64, 128, 256]}))
    assert {c.pattern for c in made} == set(PATTERNS)
    assert {c.tune.get("WG") for c in made} == {None, 128, 256}


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(st.data())
def test_drawn_cases_can_be_launched_and_written_down(data):
    attention, claims = get("attention"), kernel()
    case = data.draw(cases(attention, claims))
    launch(attention, claims, case.dims, case.scalars)
    assert Case.from_json(case.to_json()) == case
    made = materialise(case, attention, {n: ("f32", "plain") for n in "qkv"})
    assert made["k"].shape == (case.dims["kv_heads"], case.dims["capacity"], case.dims["head_dim"])
    again = materialise(case, attention, {n: ("f32", "plain") for n in "qkv"})
    assert all(np.array_equal(made[n], again[n]) for n in "qkv")


def test_integers_reach_the_last_that_is_allowed():
    case = Case({"rows": 40, "vocab": 7, "cols": 2}, seed=3)
    ids = materialise(case, get("embedding"), {"ids": ("u32", "plain"), "weight": ("f16", "f16x2")})["ids"]
    assert ids.dtype == np.uint32
    assert (ids.min(), ids.max()) == (0, 6)


@pytest.mark.parametrize("text", ["{", '{"dims": {}, "patern": "normal"}', '{"dims": {}, "pattern": "odd"}', "[]"])
def test_a_replayed_case_that_is_none(text):
    with pytest.raises(ValueError, match=r"a case is JSON like|no pattern 'odd'"):
        Case.from_json(text)


@pytest.mark.parametrize(("dtype", "storage"), [
    ("f32", "plain"), ("f16", "plain"), ("f16", "f16x2"), ("i8", "i8x4"), ("q4", "q4_32"), ("i32", "plain"),
])  # fmt: skip
def test_what_is_stored_is_the_truth(dtype, storage):
    values = 3 * np.random.default_rng(0).standard_normal((3, 37))
    kept = packing.round_to(values, dtype, storage)
    data = packing.pack(kept, dtype, storage)
    assert np.array_equal(packing.unpack(data, dtype, storage, kept.shape), kept)
    assert np.abs(kept - values).max() <= {"f32": 1e-6, "f16": 1e-2, "q4": 0.7}.get(dtype, 1.0)


def test_packed_words_are_as_wgsl_reads_them():
    halves = packing.pack(np.float16([1.0, -2.0, 0.5]), "f16", "f16x2")
    assert halves == bytes.fromhex("003c00c0") + bytes.fromhex("0038")
    block = packing.pack(packing.MANTISSA * (np.arange(32) % 16), "q4", "q4_32")
    scale, zero = np.frombuffer(block[:4], np.float16)
    assert (scale, zero) == (packing.MANTISSA, 0)
    assert block[4:8] == bytes.fromhex("10325476")  # lowest nibble first


def test_subnormals_are_not_stored():
    kept = packing.round_to(np.array([1e-5, -1e-39, 1e6]), "f16")
    assert kept.tolist() == [0, 0, 65504]


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_four_bit_blocks_hold_what_was_rounded_to_them(pattern):
    """The reference reads the rounded values, the kernel their packing: the same numbers, or no kernel is right."""
    drawn = PATTERNS[pattern]((6, 64), np.random.default_rng(3))
    kept = packing.round_to(drawn, "q4", "q4_32")
    again = packing.unpack(packing.pack(kept, "q4", "q4_32"), "q4", "q4_32", kept.shape)
    np.testing.assert_array_equal(again, kept)
