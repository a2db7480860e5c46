"""What a typed torch function says, read as a contract."""

from typing import NamedTuple

import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pytest_webgpu.ops import contract
from pytest_webgpu.ops.contract import ContractError, below, get, op


def test_arguments_scalars_and_dims_come_from_the_annotations():
    rms = get("rms_norm")
    assert [str(a) for a in rms.args] == ["x: Float[rows cols]", "weight: Float[cols]"]
    assert [(s.name, s.kind, s.default) for s in rms.scalars] == [("eps", "float", 1e-6)]
    assert rms.dims == ("rows", "cols")
    assert [(o.name, o.dims, o.inplace) for o in rms.outputs] == [("out", ("rows", "cols"), False)]


def test_optional_and_in_place_arguments():
    assert {a.name: a.optional for a in get("linear").args} == {"x": False, "weight": False, "bias": True}
    assert [(o.name, o.inplace) for o in get("rope+kv_cache_write").outputs] == [
        ("q", False), ("k_cache", True), ("v_cache", True),
    ]  # fmt: skip


def test_an_int_argument_named_like_a_dim_is_that_dim():
    top_k = get("top_k")
    assert top_k.sizes == ("k",)
    assert not top_k.scalars
    out = top_k.reference({"x": torch.tensor([[1.0, 5.0, 5.0, 2.0]])}, {"k": 3})
    assert out["values"].tolist() == [[5, 5, 2]]
    assert out["indices"].tolist() == [[1, 2, 3]]


def test_bool_tensors_and_dtype_kinds():
    @op(name="test:select")
    def select(x: Float[Tensor, "n"], keep: Bool[Tensor, "n"], ids: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x[ids] * keep

    assert [a.kind for a in select.args] == ["float", "bool", "int"]


def test_shapes_and_dims_are_inverse():
    fused = get("rms_norm+linear+rope+kv_cache_write")
    dims = {"tokens": 3, "k": 5, "heads": 4, "kv_heads": 2, "head_dim": 8, "capacity": 9, "half": 3}
    shapes = fused.shapes(dims)
    assert shapes["weight"] == (64, 5)
    assert shapes["q"] == (3, 4, 8)
    assert fused.infer({a.name: shapes[a.name] for a in fused.args}) == dims


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({"x": (2, 3), "weight": (4,)}, "weight: Float[cols] has 4 where cols is 3"),
        ({"x": (2, 3, 1), "weight": (3,)}, "was given the shape (2, 3, 1)"),
        ({"weight": (3,)}, "do not tell rows"),
        ({"y": (3,)}, "has no tensor 'y'; it has x, weight, out"),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes, says):
    with pytest.raises(ContractError) as error:
        get("rms_norm").infer(shapes)
    assert says in str(error.value)


def test_a_size_that_no_dim_gives():
    with pytest.raises(ContractError, match="do not tell"):
        get("swiglu").infer({"x": (2, 7)})


def test_reference_is_float64_and_leaves_its_inputs():
    cache = torch.zeros(1, 4, 2, dtype=torch.float64)
    out = get("kv_cache_write").reference({"cache": cache, "x": torch.ones(2, 1, 2)}, {"start": 1})
    assert out["cache"].dtype == torch.float64
    assert out["cache"][0, :, 0].tolist() == [0, 1, 1, 0]
    assert cache.sum() == 0


def test_a_user_function_that_writes_its_argument_leaves_the_input():
    class Written(NamedTuple):
        state: Float[Tensor, "n"]

    @op(name="test:write")
    def write(state: Float[Tensor, "n"]) -> Written:
        state[0] = 7
        return Written(state)

    state = torch.zeros(2, dtype=torch.float64)
    assert write.reference({"state": state})["state"].tolist() == [7, 0]
    assert state.tolist() == [0, 0]


def test_missing_argument_and_scalar():
    with pytest.raises(ContractError, match="argument weight: Float\\[cols\\] is missing"):
        get("rms_norm").reference({"x": torch.ones(1, 1)})
    with pytest.raises(ContractError, match="do not tell k"):
        get("top_k").reference({"x": torch.ones(1, 1)})


def test_unknown_op_lists_what_there_is():
    with pytest.raises(ContractError, match=r"no op is named 'gelu_new'; there are .*rms_norm"):
        get("gelu_new")


def test_an_op_outside_this_project(tmp_path, monkeypatch):
    (tmp_path / "their_ops.py").write_text(
        "import torch\nfrom jaxtyping import Float\nfrom torch import Tensor\n"
        'def gelu(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:\n    return torch.nn.functional.gelu(x)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert contract.load("their_ops:gelu").name == "gelu"
    with pytest.raises(ContractError, match="'their_ops:gelus' names no op: AttributeError"):
        contract.load("their_ops:gelus")


@pytest.mark.parametrize("spec", ["nosuch:thing", "os:system", ":", "os:", ":x", "os:path", "builtins:int"])
def test_what_names_no_op(spec):
    with pytest.raises(ContractError, match=spec):
        contract.load(spec)


def test_two_functions_of_one_name():
    op(name="test:twice")(_first)
    with pytest.raises(ContractError, match=r"test_contract\.py:\d+ and .*test_contract\.py:\d+"):
        op(name="test:twice")(_second)


def _first(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x


def _second(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x + 1


def test_annotations_that_say_nothing():
    with pytest.raises(ContractError, match=r"'x' is annotated None; a tensor is Float"):
        op(name="test:bare")(_bare)
    with pytest.raises(ContractError, match="says nothing of what it returns"):
        op(name="test:silent")(lambda x: x)


def _bare(x) -> Float[Tensor, "n"]:
    return x


def test_ranges():
    attention = get("attention")
    names = {"heads": 4, "kv_heads": 2, "start": 3, "tokens": 2, "capacity": 5}
    assert attention.allows(names)
    assert not attention.allows({**names, "start": 4})
    assert get("embedding").draw["ids"] == below("vocab")


@pytest.fixture(autouse=True)
def _forget_test_ops():
    yield
    for name in [n for n in contract._registry if n.startswith("test:") or n == "gelu"]:
        del contract._registry[name]
