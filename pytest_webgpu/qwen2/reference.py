"""What the model must say: transformers, in float64 and in our own dtype, on the same weights and tokens.

The rule: our logits lie at most FACTOR times as far from a float64 run as transformers' own in the same dtype do; and
where the two best tokens of the float64 run are further apart than twice that, the token must be equal.

In q4 both runs read the dequantised weights, so that what 4 bits lose is not counted; and since transformers has no
such dtype, its run is in f32 with keys and values held in f16, as ours are: a tighter bound than that of f16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pytest_webgpu.compiler.quantise import held
from pytest_webgpu.qwen2.config import Model
from pytest_webgpu.qwen2.peer import cache_name
from pytest_webgpu.qwen2.weights import whole

FACTOR = 4.0
_DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16}
PEER = {"f32": "f32", "f16": "f16", "q4": "f16"}
"""In which dtype transformers is timed beside ours: over the dequantised weights, where it has no such dtype."""


def transformers_model(model: Model, dtype: str = "f32", device: str = "cpu", stored: str = "f32") -> Any:
    """transformers' model with these weights, in eval mode. `dtype`: f64, f32 or f16.

    `stored`: matrices take the values that they have when a plan of that dtype (f32, f16, q4) keeps them.
    """
    bare, rotary = model.on_meta()
    bare = bare.to_empty(device=device).to(_DTYPES[dtype])
    bare.tie_weights()
    with torch.no_grad():
        for name, parameter in bare.named_parameters():
            value = torch.from_numpy(np.ascontiguousarray(whole(model.weights, name)))
            parameter.copy_(_kept(value, stored))
        for name, value in rotary.items():  # made in float32, as from_pretrained has them
            owner = bare.get_submodule(name.rpartition(".")[0])
            setattr(owner, name.rpartition(".")[2], value.to(device))
    return bare


def _kept(value: Tensor, stored: str) -> Tensor:
    if value.dim() != 2 or stored == "f32":
        return value
    return torch.from_numpy(held(value.numpy())) if stored == "q4" else value.half()


def logits_after(bare: Any, tokens: Sequence[int], first: int, half_cache: bool = False) -> Tensor:
    """Logits (len(tokens) - first, vocab) at each position from `first` on, in one pass over all tokens.

    `half_cache`: keys and values take the values that they have in f16.
    """
    ids = torch.tensor([list(tokens)], device=next(bare.parameters()).device)
    cache = {cache_name(bare.model): _half_cache(), "use_cache": True} if half_cache else {"use_cache": False}
    with torch.inference_mode():
        hidden = bare.model(input_ids=ids, **cache).last_hidden_state
        logits: Tensor = bare.lm_head(hidden[0, first:])
    return logits.double().cpu()


def _half_cache() -> Any:
    from transformers import DynamicCache

    class HalfCache(DynamicCache):  # type: ignore[misc]
        def update(self, key_states: Tensor, value_states: Tensor, *rest: Any, **more: Any) -> Any:
            kept = (one.half().to(one.dtype) for one in (key_states, value_states))
            return super().update(*kept, *rest, **more)

    return HalfCache()


@dataclass(frozen=True)
class Verdict:
    """`ours` and `theirs`: the largest distance of any logit from the float64 run, a figure a position.

    `decided`: positions at which the float64 run leaves no doubt about the token. `wrong`: those of them at which
    ours differs.
    """

    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    decided: int
    wrong: tuple[int, ...]

    @property
    def allowed(self) -> float:
        return FACTOR * max(self.theirs)

    @property
    def ratio(self) -> float:
        """Our distance over transformers'; may be at most FACTOR."""
        return max(self.ours) / max(self.theirs)

    @property
    def ok(self) -> bool:
        return not self.wrong and max(self.ours) <= self.allowed

    def __str__(self) -> str:
        at = f"; wrong token at {', '.join(map(str, self.wrong))}" if self.wrong else ""
        return (
            f"{'ok' if self.ok else 'WRONG'}: logits at most {max(self.ours):.3g} from float64, transformers' at most "
            f"{max(self.theirs):.3g} (ratio {self.ratio:.2f} of {FACTOR:g}); {self.decided} of {len(self.ours)} tokens "
            f"decided{at}"
        )


def judge(
    model: Model, prompt: Sequence[int], tokens: Sequence[int], logits: NDArray[Any], dtype: str, device: str = "cpu"
) -> Verdict:
    """Holds generated `tokens` and the logits (tokens, vocab) that they were taken from to the rule.

    Both runs of transformers read our own tokens, so that one token that was a matter of rounding does not decide
    about those after it.
    """
    if len(tokens) != len(logits):
        raise ValueError(f"{len(tokens)} tokens and {len(logits)} rows of logits")
    read, first = [*prompt, *tokens[:-1]], len(prompt) - 1
    exact, theirs = (
        logits_after(transformers_model(model, kind, device, dtype), read, first, half_cache)
        for kind, half_cache in (("f64", False), ("f32", True) if dtype == "q4" else (dtype, False))
    )
    got = torch.from_numpy(np.asarray(logits)).double()
    ours_far, theirs_far = ((run - exact).abs().nan_to_num(torch.inf).amax(-1) for run in (got, theirs))
    best = exact.topk(2, -1)
    gap = best.values[:, 0] - best.values[:, 1]
    decided = gap > 2 * FACTOR * theirs_far.max()
    unequal = decided & (best.indices[:, 0] != torch.tensor(list(tokens)))
    wrong = tuple(int(i) for i in unequal.nonzero().flatten())
    return Verdict(tuple(ours_far.tolist()), tuple(theirs_far.tolist()), int(decided.sum()), wrong)
