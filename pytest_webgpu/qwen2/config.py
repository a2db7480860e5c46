"""Which model: tiny, the true shapes of Qwen2.5, or a folder in Hugging Face layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_webgpu.compiler.load import Weights
from pytest_webgpu.qwen2.errors import NoModel

if TYPE_CHECKING:
    from torch import Tensor, nn

_QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
}

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 4096,
    },
    "qwen2.5-0.5b": {
        "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
    },
    "qwen2.5-1.5b": {
        "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
        "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
    },
}  # fmt: skip
"""The numbers of each model's config.json; those of Qwen2.5 as published with the models."""

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


@dataclass(frozen=True)
class Model:
    """`config`: the contents of config.json. `folder` is None where the weights are drawn from `seed`."""

    name: str
    config: Mapping[str, Any]
    folder: Path | None = None
    seed: int = 0

    @property
    def vocab(self) -> int:
        return int(self.config["vocab_size"])

    def drawn_prompt(self, length: int, seed: int = 0) -> list[int]:
        """Token ids drawn from a seed of their own: the same for whoever measures or judges this model."""
        drawn: list[int] = np.random.default_rng(seed).integers(0, self.vocab, length).tolist()
        return drawn

    @property
    def layers(self) -> int:
        return int(self.config["num_hidden_layers"])

    @cached_property
    def weights(self) -> Weights:
        """The tensors: drawn, or memory-mapped from the folder."""
        from pytest_webgpu.qwen2.weights import DEEP, SHARP, DrawnWeights, FolderWeights

        if self.folder is not None:
            return FolderWeights(self.folder)
        return DrawnWeights(shapes(self.config), self.seed, SHARP if self.layers >= DEEP else 1.0)

    def tokenizer(self) -> Any:
        """transformers' tokenizer of the folder. Raises NoModel where there is none."""
        if self.folder is None:
            raise NoModel(f"{self.name} has weights drawn from a seed and no tokenizer: give token ids")
        if not any((self.folder / name).is_file() for name in TOKENIZERS):
            raise NoModel(f"{self.folder}: no tokenizer: there is none of {', '.join(TOKENIZERS)}")
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise NoModel(f"{self.folder}: the tokenizer cannot be read: {error}") from error

    def on_meta(self) -> tuple[nn.Module, dict[str, Tensor]]:
        """The model of transformers without weights, and the values of its rotary buffers."""
        import torch
        from transformers import AutoModelForCausalLM

        config = self.transformers_config()
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32).eval()
        rotary = type(model.model.rotary_emb)(config=config)
        return model, {f"model.rotary_emb.{name}": value for name, value in rotary.named_buffers()}

    def transformers_config(self) -> Any:
        from transformers import AutoConfig

        settings = {k: v for k, v in self.config.items() if k not in ("model_type", "architectures")}
        return AutoConfig.for_model(self.config["model_type"], **settings)


def find_model(name: str | Path, seed: int = 0) -> Model:
    """The model of a name, or of a folder with config.json and *.safetensors. Raises NoModel."""
    if isinstance(name, str) and name in SHAPES:
        return Model(name, {**_QWEN2, **SHAPES[name]}, seed=seed)
    folder = Path(name)
    if not folder.is_dir():
        raise NoModel(f"{name} is neither a model ({', '.join(SHAPES)}) nor a folder in Hugging Face layout")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model_type, _ = config["model_type"], config["vocab_size"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoModel(f"{folder}: no model: config.json cannot be used ({type(error).__name__}: {error})") from error
    if not any(folder.glob("*.safetensors")):
        raise NoModel(f"{folder}: no model: there is config.json ({model_type}) but no *.safetensors beside it")
    return Model(folder.name, config, folder)


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a Qwen2 model, by its name in the checkpoint."""
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head_dim = config.get("head_dim") or hidden // config["num_attention_heads"]
    q, kv = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, width in (("q", q), ("k", kv), ("v", kv)):
            found[f"{at}self_attn.{name}_proj.weight"] = (width, hidden)
            found[f"{at}self_attn.{name}_proj.bias"] = (width,)
        found[f"{at}self_attn.o_proj.weight"] = (hidden, q)
        found |= {f"{at}mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")}
        found[f"{at}mlp.down_proj.weight"] = (hidden, inner)
        found |= {f"{at}{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}
    found["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = (vocab, hidden)
    return found
