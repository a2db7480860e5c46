"""ONNX Runtime's WebGPU provider from Python: is it here, where do its nodes run, and a greedy generation on it.

The provider is the one that onnxruntime-webgpu has built in. The plugin that came after it (onnxruntime-ep-webgpu 0.4
beside onnxruntime 1.32) refuses an adapter in software: "a virtual GPU device ... can only serve a compile-only
session".
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.performance.onnx_graph import NUMPY, cache_names, cache_shape
from pytest_webgpu.qwen2.config import Model

PROVIDER = "WebGpuExecutionProvider"
PACKAGES = {"onnx": "onnx", "onnxruntime": "onnxruntime-webgpu"}
INSTALL = "pip install 'pytest-webgpu[peers]'"


class NoPeer(Exception):
    """What is missing for ONNX Runtime on WebGPU to run here, in words."""


def require() -> Any:
    """The module onnxruntime. Raises NoPeer where a package is missing or was built without WebGPU."""
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise NoPeer(f"{' and '.join(missing)} not installed: {INSTALL}")
    runtime = importlib.import_module("onnxruntime")
    if PROVIDER not in (there := runtime.get_available_providers()):
        raise NoPeer(
            f"the onnxruntime that is installed ({runtime.__version__}) has no {PROVIDER}, only {', '.join(there)}; "
            f"packages of ONNX Runtime overwrite each other: uninstall it, then {INSTALL}"
        )
    return runtime


@dataclass
class Said:
    """`logits`: (tokens, vocab), if asked for. Seconds: to the first token as read; of the others together."""

    tokens: list[int]
    prefill_seconds: float
    decode_seconds: float
    logits: NDArray[Any] | None = None


class Peer:
    """A session whose caches and tokens stay on the device. Raises NoPeer where WebGPU cannot have it."""

    def __init__(self, runtime: Any, path: Path, model: Model, dtype: str, capacity: int) -> None:
        self.runtime = runtime
        self.tokens: list[Any] = []
        self.caches: dict[str, Any] = {}
        self.sources: list[Any] = []
        options = runtime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(path.parent / "profile")
        options.log_severity_level = 3
        try:  # without that argument, a provider that fails is replaced by the CPU's without a word
            self.session = runtime.InferenceSession(str(path), options, providers=[PROVIDER], enable_fallback=0)
            self.tokens = self._on_device("ArgMax", np.zeros((1, 1, 4), np.float32), capacity, axis=-1, keepdims=0)
            empty, names = np.zeros(cache_shape(model, capacity), NUMPY[dtype]), cache_names(model)
            self.caches = dict(zip(names, self._on_device("Add", empty, len(names)), strict=True))
        except Exception as error:  # of classes that the runtime does not publish
            told = f"ONNX Runtime {runtime.__version__} has no {model.name} {dtype} on WebGPU"
            raise NoPeer(f"{told}: {str(error).strip()}") from error

    def _on_device(self, op: str, value: NDArray[Any], count: int, **attributes: Any) -> list[Any]:
        """Zeros there, of `value`'s shape, or of its last dimension's greatest for ArgMax. No call allocates any
        (`ortvalue_from_shape_and_type` asks for CUDA), so `count` runs of a model of one node give them."""
        helper, kinds = (onnx := importlib.import_module("onnx")).helper, onnx.TensorProto
        kind, is_choice = helper.np_dtype_to_tensor_dtype(value.dtype), op == "ArgMax"
        given = helper.make_tensor_value_info("x", kind, value.shape)
        shape = value.shape[:-1] if is_choice else value.shape
        made = helper.make_tensor_value_info("y", kinds.INT64 if is_choice else kind, shape)
        node = helper.make_node(op, ["x"] if is_choice else ["x", "x"], ["y"], **attributes)
        graph = helper.make_graph([node], "zeros", [given], [made])
        text = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
        session = self.runtime.InferenceSession(text, providers=[PROVIDER], enable_fallback=0)
        self.sources.append(session)
        values = []
        for _ in range(count):
            binding = session.io_binding()
            binding.bind_cpu_input("x", value)
            binding.bind_output("y", "webgpu")
            session.run_with_iobinding(binding)
            values.append(binding.get_outputs()[0])
        return values

    def generate(self, prompt: Sequence[int], new_tokens: int, at_once: bool = True, logits: bool = False) -> Said:
        """Exactly `new_tokens` greedy tokens. `at_once`: the prompt in one step, else a token a step. Raises NoPeer."""
        binding = self.session.io_binding()
        for name, cache in self.caches.items():
            binding.bind_ortvalue_input(f"past_{name}", cache)
            binding.bind_ortvalue_output(f"present_{name}", cache)
        if logits:
            binding.bind_output("logits", "cpu")
        steps = [prompt] if at_once else [[token] for token in prompt]
        rows: list[NDArray[Any]] = []
        done = 0
        began = prompted = time.perf_counter()
        for i in range(len(steps) + new_tokens - 1):
            held = [np.array([steps[i]])] if i < len(steps) else []  # a binding keeps no reference to what it was given
            if held:
                binding.bind_cpu_input("input_ids", held[0])
            done += held[0].size if held else 1
            held += [np.array([done - 1], np.int32), np.array(done, np.int32)]
            binding.bind_cpu_input("seqlens_k", held[-2])
            binding.bind_cpu_input("total", held[-1])
            said = i - len(steps) + 1  # the number of the new token, below 0 within the prompt
            token = self.tokens[max(said, 0)]
            binding.bind_ortvalue_output("token", token)
            try:
                self.session.run_with_iobinding(binding)
            except Exception as error:
                raise NoPeer(f"ONNX Runtime cannot run its step {i + 1} on WebGPU: {error}") from error
            if said >= 0:
                binding.bind_ortvalue_input("input_ids", token)
                if logits:  # the values of a binding are overwritten by its next run
                    rows.append(binding.get_outputs()[len(self.caches)].numpy()[0].astype(np.float32))
            if said == 0:
                token.numpy()
                prompted = time.perf_counter()
        tokens = [int(token.numpy()[0, 0]) for token in self.tokens[:new_tokens]]
        ended = time.perf_counter()
        return Said(tokens, prompted - began, ended - prompted, np.concatenate(rows) if logits else None)

    def close(self) -> None:
        """Frees values before the sessions that made them: the other way round the process dies as it ends."""
        self.tokens.clear()
        self.caches.clear()
        self.sources.clear()
        del self.session

    def placement(self) -> dict[str, dict[str, int]]:
        """How many nodes of each op each provider ran since the session began. Ends the profile, which slows a run."""
        path = Path(self.session.end_profiling())
        ran = {
            (event["args"]["provider"], event["args"]["op_name"], event["name"])
            for event in json.loads(path.read_text(encoding="utf-8"))
            if event["cat"] == "Node" and event.get("args", {}).get("provider")
        }
        found: dict[str, dict[str, int]] = {}
        for provider, op, _ in sorted(ran):
            of = found.setdefault(provider, {})
            of[op] = of.get(op, 0) + 1
        return found
