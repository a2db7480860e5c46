"""How fast torch itself runs the same model on the same machine: the column that ours stands beside."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class PeerSpeed:
    """Greedy generation at batch 1 by torch: medians over rounds. `first_token_ms` includes the prompt."""

    device: str
    method: str  # "eager" (dynamic cache) or "compiled" (static cache, CUDA graphs where there are any)
    dtype: str
    prompt_tokens: int
    new_tokens: int
    first_token_ms: float
    token_ms: float
    tokens: tuple[int, ...]

    @property
    def tokens_per_second(self) -> float:
        return 1e3 / self.token_ms


def measure(model: Any, prompt: list[int], new_tokens: int, method: str = "eager", rounds: int = 3) -> PeerSpeed:
    """Times `model` (a transformers causal LM, in eval mode, on its device): the prompt, then `new_tokens` - 1 steps.

    "compiled" is torch.compile(mode="reduce-overhead") over a static cache, one graph a step, as transformers
    recommends for decoding; the prompt runs uncompiled there, as it does in transformers' own generate.
    """
    with warnings.catch_warnings():  # of torch's own making, which a test session may have turned into errors
        warnings.simplefilter("ignore")
        return _measure(model, prompt, new_tokens, method, rounds)


def _measure(model: Any, prompt: list[int], new_tokens: int, method: str, rounds: int) -> PeerSpeed:
    device = next(model.parameters()).device
    step = _compiled(model) if method == "compiled" else model
    cache = _cache(model, method, len(prompt) + new_tokens)
    first, decode, tokens = [], [], []
    for round_ in range(rounds + 1):
        if method == "eager":
            cache = _cache(model, method, 0)
        else:
            cache.reset()  # a new one would have other addresses, and the graphs be recorded again
        ids = torch.tensor([prompt], device=device)
        _synchronise(device)
        began = time.perf_counter()
        with torch.inference_mode() if method == "eager" else torch.no_grad():
            token = _next(model, ids, cache)
            tokens = [int(token)]  # the first token is read, so the prompt's time is a synchronised one
            prompted = time.perf_counter()
            produced = []
            for _ in range(new_tokens - 1):
                if method == "compiled" and device.type == "cuda":
                    torch.compiler.cudagraph_mark_step_begin()
                token = _next(step, token.reshape(1, 1), cache).clone()
                produced.append(token)
            _synchronise(device)
        ended = time.perf_counter()
        tokens += [int(t) for t in produced]
        if round_:  # the first round compiles and warms up
            first.append(prompted - began)
            decode.append((ended - prompted) / max(1, new_tokens - 1))
    return PeerSpeed(
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        method=method,
        dtype=str(next(model.parameters()).dtype).removeprefix("torch."),
        prompt_tokens=len(prompt),
        new_tokens=new_tokens,
        first_token_ms=1e3 * sorted(first)[len(first) // 2],
        token_ms=1e3 * sorted(decode)[len(decode) // 2],
        tokens=tuple(tokens),
    )


def _next(model: Callable[..., Any], ids: Tensor, cache: Any) -> Tensor:
    return model(ids, **{cache_name(model): cache}, use_cache=True).logits[0, -1].argmax()


def cache_name(model: Any) -> str:
    """What forward calls its cache: transformers renamed `past_key_values` to `cache`."""
    names = inspect.signature(getattr(model, "_orig_mod", model).forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def _cache(model: Any, method: str, capacity: int) -> Any:
    from transformers import DynamicCache, StaticCache

    if method == "eager":
        return DynamicCache(config=model.config)
    return StaticCache(config=model.config, max_cache_len=capacity)


def _compiled(model: Any) -> Any:
    return torch.compile(model, mode="reduce-overhead", fullgraph=True, dynamic=False)


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
