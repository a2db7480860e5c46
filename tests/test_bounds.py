"""Bounds of contracts: sharp on sums, exact on what is moved, as wide as the stored type."""

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pytest_webgpu.conformance.bounds import Bounded, disagreement, explain, reference_with_bound, stored
from pytest_webgpu.ops import contract
from pytest_webgpu.ops.contract import get, op


@pytest.mark.parametrize(("k", "independent"), [(896, True), (4864, True), (896, False)])
def test_a_product_wrong_by_a_ten_thousandth_is_outside(k, independent):
    x, w = torch.randn(2, k), torch.randn(32, k)
    out = reference_with_bound(get("linear"), {"x": x, "weight": w}, independent=independent)["out"]
    fine = (F.linear(x, w).double() - out.value).abs() <= out.bound
    wrong = (out.value * 1e-4).abs() > out.bound
    assert bool(fine.all())
    assert bool(wrong.any()) == independent  # any order of any terms may be off by that: the sharp bound tells


@pytest.mark.parametrize(("op", "first"), [("linear", "bias"), ("linear+add", "residual")])
@pytest.mark.parametrize("independent", [True, False])
def test_a_sum_may_begin_with_what_is_added_to_it(op, first, independent):
    x, w = 1e-2 * torch.randn(1, 896), torch.randn(64, 896)
    begin = 1000 * torch.randn(64) if first == "bias" else 1000 * torch.randn(1, 64)
    total = begin.clone().reshape(1, 64)
    for i in range(896):
        total += x[:, i] * w[:, i]
    out = reference_with_bound(get(op), {"x": x, "weight": w, first: begin}, independent=independent)["out"]
    off = (total.double() - out.value).abs()
    assert bool((off <= out.bound).all())
    assert bool((off > 4 * 2**-24 * out.value.abs()).any())  # far more than adding it last would round off


@pytest.mark.parametrize(
    ("name", "inputs", "scalars"),
    [
        ("kv_cache_write", {"cache": torch.randn(2, 9, 4), "x": torch.randn(3, 2, 4)}, {"start": 2}),
        ("embedding", {"ids": torch.tensor([1, 0]), "weight": torch.randn(2, 5)}, {}),
        ("top_k", {"x": torch.randn(2, 9)}, {"k": 3}),
        ("argmax", {"x": torch.randn(2, 9)}, {}),
        ("max", {"x": torch.randn(2, 9)}, {}),
        ("cast", {"x": torch.randn(9)}, {}),
    ],
)
def test_what_is_only_moved_must_be_equal(name, inputs, scalars):
    for out in reference_with_bound(get(name), inputs, scalars).values():
        assert float(out.bound.max()) == 0


def test_a_narrowing_cast_may_go_either_way():
    x = torch.tensor([1.0, 1.0 + 2.0**-12, 7e4, 1e-5])
    out = reference_with_bound(get("cast"), {"x": x}, dtypes={"out": "f16"})["out"]
    assert out.bound[:2].tolist() == [0, 2.0**-10]
    assert out.unspecified.tolist() == [False, False, True, False]
    assert float(out.bound[3]) >= 1e-5  # a subnormal may be flushed


def test_a_contract_can_list_other_forms():
    def reference(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return (x + 1) * (x - 1)

    x = {"x": 1 + 1e-3 * torch.randn(50)}
    narrow = reference_with_bound(op(name="test:form")(reference), x)["out"]
    wide = reference_with_bound(op(name="test:form", forms=[lambda x: x * x - 1])(reference), x)["out"]
    other = (x["x"] * x["x"] - 1).double()
    assert not bool(((other - narrow.value).abs() <= narrow.bound).all())
    assert bool(((other - wide.value).abs() <= wide.bound).all())


def test_explain_says_which_operation_owns_the_bound():
    inputs = {"x": torch.randn(1, 64), "norm_weight": torch.randn(64), "weight": torch.randn(8, 64)}
    shares = explain(get("rms_norm+linear"), inputs, {"eps": 1e-6}, "out", (0, 3))
    assert {name for name, _, _ in shares} >= {"linear", "rsqrt", "mean", "mul"}
    assert sum(share for _, _, share in shares) == pytest.approx(1)
    assert shares == sorted(shares, key=lambda s: -s[2])


def test_integers_are_exact_and_floats_made_from_them_too():
    def unpack(words: Int[Tensor, "n"], scale: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return ((words >> 4) & 15).to(scale.dtype)

    inputs = {"words": torch.tensor([0xAB, 0x12]), "scale": torch.ones(2)}
    out = reference_with_bound(op(name="test:unpack")(unpack), inputs)["out"]
    assert out.value.tolist() == [10, 1]
    assert out.bound.tolist() == [0, 0]


def test_sizes_of_bounds_as_stored():
    out = stored(torch.tensor([1.5, 3.0]).double(), torch.tensor([1e-3, 0.0]).double(), "f16")
    assert out.bound.tolist() == [pytest.approx(2e-3 + 2.0**-10), 0]


def test_two_references_must_agree():
    inputs = {"x": torch.randn(3, 40), "weight": torch.randn(40)}
    one, other = (reference_with_bound(get("rms_norm"), inputs, {"eps": 1e-6}) for _ in range(2))
    assert disagreement(one, other) is None
    other["out"].value[1, 2] += 0.1 * other["out"].bound[1, 2]
    assert disagreement(one, other).startswith("out[1, 2] is ")
    exact = {"a": Bounded(torch.ones(2).double(), torch.zeros(2).double())}
    assert disagreement(exact, {"a": Bounded(exact["a"].value + 1e-9, exact["a"].bound)})


@pytest.fixture(autouse=True)
def _forget_test_ops():
    yield
    for name in [n for n in contract._registry if n.startswith("test:")]:
        del contract._registry[name]
