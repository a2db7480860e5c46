"""torch.compile(model, backend="webgpu"): what comes out is what the model says, and what cannot be is told."""

import importlib.metadata

import pytest
import torch
from torch import nn

from pytest_webgpu.compiler.torch_backend import webgpu
from pytest_webgpu.qwen2.config import find_model
from pytest_webgpu.qwen2.reference import transformers_model


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def compiled(model):
    return torch.compile(model, backend=webgpu, dynamic=False, fullgraph=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 48, False), nn.Linear(16, 48, False), nn.Linear(48, 16)

    def forward(self, x):
        y = self.down(nn.functional.silu(self.gate(x)) * self.up(x))
        return x + y, y


def test_torch_finds_it_by_name():
    (found,) = importlib.metadata.entry_points(group="torch_dynamo_backends", name="webgpu")
    assert found.load() is webgpu


@torch.no_grad()
def test_a_block_of_a_model_with_two_results():
    torch.manual_seed(0)
    model, x = Block(), torch.randn(3, 16)
    run = compiled(model)
    for _ in range(2):
        torch.testing.assert_close(run(x), model(x))
        x = torch.randn(3, 16)


@torch.no_grad()
def test_weights_that_change_are_uploaded_again():
    model, x = Block(), torch.randn(2, 16)
    run = compiled(model)
    run(x)
    model.down.weight.mul_(2)
    torch.testing.assert_close(run(x), model(x))


@torch.no_grad()
def test_half_weights_lie_as_halves_and_the_result_has_the_models_dtype():
    torch.manual_seed(0)
    model, x = Block().half(), torch.randn(3, 16).half()
    got = compiled(model)(x)
    for mine, wanted in zip(got, model.float()(x.float()), strict=True):
        assert mine.dtype == torch.float16
        torch.testing.assert_close(mine.float(), wanted, rtol=2e-3, atol=1e-3)


@torch.no_grad()
def test_a_whole_decoder():
    tiny = find_model("tiny")
    bare, ids = transformers_model(tiny), torch.tensor([tiny.drawn_prompt(12)])
    got = compiled(lambda ids: bare(ids, use_cache=False).logits)(ids)
    torch.testing.assert_close(got, bare(ids, use_cache=False).logits, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_an_operation_that_no_contract_computes_is_named_with_its_line():
    with pytest.raises(Exception, match=r"aten.cumsum.*test_torch_backend.py"):
        compiled(lambda x: torch.cumsum(x, 0))(torch.randn(4, 4))


@torch.no_grad()
def test_a_graph_that_writes_into_its_input_is_refused():
    with pytest.raises(Exception, match="writes into its input"):
        compiled(lambda x: x.add_(1.0))(torch.randn(4, 4))
