"""Every op against another way to write it, and torch's own float32 inside of every op's bound."""

import math

import pytest
import torch
import torch.nn.functional as F

from pytest_webgpu.conformance.bounds import reference_with_bound
from pytest_webgpu.conformance.running_error import Calibration
from pytest_webgpu.ops.contract import Below, all_ops, get

DIMS = {"heads": 4, "kv_heads": 2, "head_dim": 8, "half": 3, "tokens": 3, "capacity": 9, "rows": 5, "cols": 33, "k": 16,
        "n": 12, "vocab": 41, "size": 200, "d0": 2, "d1": 3, "d2": 4, "d3": 5, "a_size": 130, "b_size": 70, "a_cols": 5,
        "b_cols": 2, "blocks": 3}  # fmt: skip
SCALARS = {"start": 4, "offset": 7, "s0": 60, "s1": 20, "s2": 5, "s3": 1, "scale": 0.35,
           "a_offset": 3, "a0": 60, "a1": 20, "a2": 5, "a3": 1, "b_offset": 2, "b0": 0, "b1": 20, "b2": 0, "b3": 2}
GENERATOR = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=GENERATOR)


def given(contract):
    """Inputs, and scalars with dims, at DIMS."""
    shapes = contract.shapes(DIMS, SCALARS)
    inputs = {}
    for arg in contract.args:
        below = contract.draw.get(arg.name)
        high = int(below.limit) if isinstance(below, Below) and below.limit.isdigit() else 8
        integers = torch.randint(0, high, shapes[arg.name], generator=GENERATOR)
        positive = isinstance(below, list) and "normal" not in below
        floats = (randn(*shapes[arg.name]).abs() + 0.1) if positive else randn(*shapes[arg.name])
        inputs[arg.name] = integers if arg.kind == "int" else floats
    names = {s.name for s in contract.scalars}
    return inputs, {n: v for n, v in SCALARS.items() if n in names} | {n: DIMS[n] for n in contract.sizes}


@pytest.mark.parametrize("name", [c.name for c in all_ops()])
def test_float32_on_the_cpu_is_inside_the_bound(name):
    contract = get(name)
    inputs, scalars = given(contract)
    wanted = reference_with_bound(contract, inputs, scalars, calibration=Calibration(3e-7, 3e-7, 3e-7, 1e-7))
    got = contract.reference(inputs, scalars, dtype=torch.float32)
    assert got.keys() == {o.name for o in contract.outputs}
    shapes = contract.shapes(DIMS, SCALARS)
    for output, out in wanted.items():
        assert got[output].shape == shapes[output]
        assert not bool(out.unspecified.any())
        assert bool(((got[output].double() - out.value).abs() <= out.bound).all())


@pytest.mark.parametrize("contract", all_ops(), ids=lambda c: c.name)
def test_every_op_says_what_it_computes(contract):
    assert contract.doc
    assert all(contract.tensor(name) for name in contract.draw if name not in {s.name for s in contract.scalars})


def attend(q, k, v, start, scale):
    """One query after another, one head after another."""
    out = torch.empty_like(q)
    for t in range(q.shape[0]):
        for h in range(q.shape[1]):
            kv = h // (q.shape[1] // k.shape[0])
            keys, values = k[kv, : start + t + 1], v[kv, : start + t + 1]
            out[t, h] = torch.softmax(scale * (keys @ q[t, h]), 0) @ values
    return out


def test_attention_sees_its_past_and_shares_heads():
    inputs, scalars = given(get("attention"))
    out = get("attention").reference(inputs, scalars)["out"]
    assert torch.allclose(out, attend(*(inputs[n].double() for n in "qkv"), 4, 0.35))


def turn(x, angles):
    """The half-split rotation as a product of complex numbers."""
    half = angles.shape[-1]
    turned = torch.complex(x[..., :half], x[..., half : 2 * half]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag, x[..., 2 * half :]), -1)


def test_rope_turns_pairs_and_copies_the_rest():
    x, angles, positions = randn(3, 4, 8).double(), randn(9, 3).double(), torch.tensor([7, 0, 7])
    inputs = {"x": x, "cos": angles.cos(), "sin": angles.sin(), "positions": positions}
    out = get("rope").reference(inputs)["out"]
    assert torch.allclose(out, turn(x, angles[positions][:, None]))
    assert torch.equal(out[..., 6:], x[..., 6:])


def test_rope_angles_are_those_of_the_paper():
    x, positions = randn(3, 4, 8).double(), torch.tensor([0, 5, 301])
    angles = torch.stack([positions.double() / 500.0 ** (2 * i / 8) for i in range(4)], -1)
    out = get("rope_angles").reference({"x": x, "positions": positions}, {"base": 500.0})["out"]
    assert torch.allclose(out, turn(x, angles[:, None]), atol=1e-6)


def test_the_whole_way_from_a_layers_input_to_its_cache():
    contract = get("rms_norm+linear+rope+kv_cache_write")
    inputs, scalars = given(contract)
    out = contract.reference(inputs, scalars)
    x = {n: t.double() for n, t in inputs.items()}
    normed = F.rms_norm(x["x"], (16,), x["norm_weight"], 1e-6)
    qkv = (normed @ x["weight"].T + x["bias"]).reshape(3, 8, 8)
    c, s = x["rope_table"][:, 4:7, None]

    def rotate(t):
        a, b = t[..., :3], t[..., 3:6]
        return torch.cat((a * c - b * s, b * c + a * s, t[..., 6:]), -1)

    assert torch.allclose(out["q"], rotate(qkv[:, :4]))
    kept = [i for i in range(9) if not 4 <= i < 7]
    for which, new in enumerate((rotate(qkv[:, 4:6]), qkv[:, 6:])):
        assert torch.allclose(out["kv_cache"][which, :, 4:7], new.transpose(0, 1))
        assert torch.equal(out["kv_cache"][which][:, kept], x["kv_cache"][which][:, kept])


def test_swiglu_takes_the_gate_first():
    x = torch.tensor([[1.0, 2.0, 10.0, 20.0]])
    out = get("swiglu").reference({"x": x})["out"]
    assert out.tolist() == [[pytest.approx(10 / (1 + math.exp(-1))), pytest.approx(40 / (1 + math.exp(-2)))]]


def test_ties_go_to_the_first():
    x = torch.tensor([[1.0, 3.0, 3.0], [-5.0, -5.0, -6.0]])
    assert get("argmax").reference({"x": x})["out"].tolist() == [1, 0]
    assert get("top_k").reference({"x": x}, {"k": 2})["indices"].tolist() == [[1, 2], [0, 1]]


def test_argmax_advance_moves_the_position_and_logs_there():
    inputs = {"logits": torch.tensor([[0.0, 2.0, 2.0]]), "token": torch.tensor([0]), "position": torch.tensor([2]),
              "log": torch.tensor([7, 7, 7, 7])}  # fmt: skip
    out = get("argmax+advance").reference(inputs)
    assert {n: t.tolist() for n, t in out.items()} == {"token": [1], "position": [3], "log": [7, 7, 7, 1]}


def test_copy_transposes_and_broadcasts():
    x = torch.arange(12.0)
    turned = get("copy").reference({"x": x}, {"d0": 1, "d1": 1, "d2": 4, "d3": 3, "s2": 1, "s3": 4})["out"]
    assert torch.equal(turned[0, 0], x.double().reshape(3, 4).T)
    same = get("copy").reference({"x": x}, {"d0": 1, "d1": 2, "d2": 1, "d3": 2, "s1": 0, "s3": 1, "offset": 5})["out"]
    assert same.flatten().tolist() == [5, 6, 5, 6]


@pytest.mark.parametrize("halves", [0, 1])
def test_four_bit_weights_unpacked_one_by_one(halves):
    packed = torch.randint(0, 1 << 32, (5, 8), generator=GENERATOR)
    scale, zero, x = randn(5, 2), randn(5, 2), randn(3, 64)
    weight = torch.empty(5, 64)
    for row in range(5):
        for i in range(64):
            at = i % 32
            nibble = 2 * (at % 16) + at // 16 if halves else at
            q = int(packed[row, 4 * (i // 32) + nibble // 8]) >> 4 * (nibble % 8) & 15
            weight[row, i] = (q - zero[row, i // 32]) * scale[row, i // 32]
    torch.testing.assert_close(get("linear_q4")(x, packed, scale, zero, halves), x @ weight.T)
    middle = get("linear_q4")(x, packed, scale, torch.full((5, 2), 8.0), halves)
    torch.testing.assert_close(get("linear_q4")(x, packed, scale, None, halves), middle)
