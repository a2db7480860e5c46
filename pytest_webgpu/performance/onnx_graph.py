"""A step of Qwen2.5 as an ONNX model, in the form that ONNX Runtime's own model builder gives decoders for WebGPU.

That form is the fastest there: one node for attention with its rotation and cache (GroupQueryAttention), one for a
residual with its norm (SkipSimplifiedLayerNormalization), Q, K and V in one product. An export by tracing has dozens of
small nodes in their place. The choice of the token is in the model, so that no row of logits need be read back.

Inputs: `input_ids` (1, s) int64; `seqlens_k` (1) int32, the tokens so far less one; `total` () int32, the tokens so
far; `past_k0`, `past_v0`, ... (1, kv heads, capacity, head dim). Outputs: `token` (1, 1) int64; `logits` (1, 1, vocab)
of the last position; `present_k0`, ..., which may be the buffers of the past.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.qwen2.config import Model
from pytest_webgpu.qwen2.weights import whole

CONTRIB = "com.microsoft"
ALIGNED = 4096  # offsets of weights in their file, so that it can be mapped
NUMPY: dict[str, Any] = {"f32": np.float32, "f16": np.float16}


class _Writer:
    """Nodes in order; constants go straight to a file, since protobuf ends at 2 GiB."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        import onnx

        self.onnx, self.file, self.name = onnx, file, name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.file.write(b"\0" * (-self.file.tell() % ALIGNED))
        made = self.onnx.TensorProto(
            name=name, dims=value.shape, data_type=self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype),
            data_location=self.onnx.TensorProto.EXTERNAL,
        )  # fmt: skip
        for key, told in (("location", self.name), ("offset", self.file.tell()), ("length", value.nbytes)):
            made.external_data.add(key=key, value=str(told))
        np.ascontiguousarray(value).tofile(self.file)
        self.constants.append(made)
        return name

    def node(self, op: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        made = self.onnx.helper.make_node(op, inputs, outputs, name=outputs[0], domain=domain, **attributes)
        self.nodes.append(made)
        return outputs[0]


def export(model: Model, dtype: str, capacity: int, folder: Path) -> Path:
    """Writes model.onnx and its weights to `folder`. `dtype`: f32 or f16, of weights, caches and arithmetic."""
    with (folder / "model.weights").open("wb") as file:
        graph = _graph(_Writer(file, "model.weights"), model, dtype, capacity)
    path = folder / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    return path


def cache_names(model: Model) -> list[str]:
    return [f"{part}{layer}" for layer in range(model.layers) for part in "kv"]


def cache_shape(model: Model, capacity: int) -> tuple[int, int, int, int]:
    heads, kv_heads = (int(model.config[f"num_{kind}_heads"]) for kind in ("attention", "key_value"))
    return (1, kv_heads, capacity, int(model.config["hidden_size"]) // heads)


def _graph(to: _Writer, model: Model, dtype: str, capacity: int) -> Any:
    helper, config = to.onnx.helper, model.config
    heads, eps, vocab = int(config["num_attention_heads"]), float(config["rms_norm_eps"]), model.vocab
    shape = cache_shape(model, capacity)

    def weight(name: str) -> NDArray[Any]:
        kept: NDArray[Any] = whole(model.weights, name).astype(NUMPY[dtype])
        return kept

    def product(x: str, name: str, into: str) -> str:
        return to.node("MatMul", [x, to.constant(f"{into}.weight", weight(name).T)], into)

    def residual(inputs: list[str], *outputs: str) -> str:
        """The norm of a sum, and the sum as the fourth output."""
        return to.node("SkipSimplifiedLayerNormalization", inputs, *outputs, domain=CONTRIB, epsilon=eps)

    angle = np.outer(np.arange(capacity), config["rope_theta"] ** (-np.arange(0, shape[-1], 2) / shape[-1]))
    rotation = [to.constant(name, of(angle).astype(NUMPY[dtype])) for name, of in (("cos", np.cos), ("sin", np.sin))]
    table = to.constant("table", weight("model.embed_tokens.weight"))
    x = to.node("Gather", [table, "input_ids"], "embedded")
    scale = to.constant("norm0", weight("model.layers.0.input_layernorm.weight"))
    normed = to.node("SimplifiedLayerNormalization", [x, scale], "normed0", axis=-1, epsilon=eps, stash_type=1)
    for i in range(model.layers):
        at, attention = f"model.layers.{i}.", f"model.layers.{i}.self_attn."
        matrix = np.concatenate([weight(f"{attention}{part}_proj.weight") for part in "qkv"]).T
        bias = np.concatenate([weight(f"{attention}{part}_proj.bias") for part in "qkv"])
        qkv = to.node("MatMul", [normed, to.constant(f"qkv{i}.weight", matrix)], f"product{i}")
        qkv = to.node("Add", [qkv, to.constant(f"qkv{i}.bias", bias)], f"qkv{i}")
        attended = to.node(
            "GroupQueryAttention", [qkv, "", "", f"past_k{i}", f"past_v{i}", "seqlens_k", "total", *rotation],
            f"attended{i}", f"present_k{i}", f"present_v{i}", domain=CONTRIB, num_heads=heads, kv_num_heads=shape[1],
            do_rotary=1, rotary_interleaved=0, scale=shape[-1] ** -0.5,
        )  # fmt: skip
        out = product(attended, f"{attention}o_proj.weight", f"out{i}")
        scale = to.constant(f"middle{i}", weight(f"{at}post_attention_layernorm.weight"))
        normed = residual([x, out, scale], f"between{i}", "", "", f"sum{i}")
        gate = product(normed, f"{at}mlp.gate_proj.weight", f"gate{i}")
        up = product(normed, f"{at}mlp.up_proj.weight", f"up{i}")
        silu = to.node("Mul", [gate, to.node("Sigmoid", [gate], f"sigmoid{i}")], f"silu{i}")
        down = product(to.node("Mul", [silu, up], f"inner{i}"), f"{at}mlp.down_proj.weight", f"down{i}")
        is_last = i + 1 == model.layers
        after = "model.norm.weight" if is_last else f"model.layers.{i + 1}.input_layernorm.weight"
        scale = to.constant(f"norm{i + 1}", weight(after))
        sums = () if is_last else ("", "", f"embedded{i + 1}")
        normed = residual([f"sum{i}", down, scale], f"normed{i + 1}", *sums)
        x = f"embedded{i + 1}"
    last = to.node("Gather", [normed, to.constant("last", np.array([-1]))], "last_row", axis=1)
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    to.node("ArgMax", [product(last, head, "logits")], "token", axis=-1, keepdims=0)

    kinds = to.onnx.TensorProto
    real = helper.np_dtype_to_tensor_dtype(np.dtype(NUMPY[dtype]))
    made = helper.make_tensor_value_info
    inputs = [made("input_ids", kinds.INT64, [1, "s"])]
    inputs += [made("seqlens_k", kinds.INT32, [1]), made("total", kinds.INT32, [])]
    outputs = [made("token", kinds.INT64, [1, 1]), made("logits", real, [1, 1, vocab])]
    inputs += [made(f"past_{name}", real, shape) for name in cache_names(model)]
    outputs += [made(f"present_{name}", real, shape) for name in cache_names(model)]
    graph = helper.make_graph(to.nodes, model.name, inputs, outputs, to.constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
