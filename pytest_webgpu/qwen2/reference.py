"""What the model must say: transformers, in float64 and in our own dtype, on the same weights and tokens.

The rule: our logits lie at most FACTOR times as far from a float64 run as transformers' own in the same dtype do; and
where the two best tokens of the float64 run are further apart than twice that, the token must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pytest_webgpu.qwen2.config import Model
from pytest_webgpu.qwen2.weights import whole

FACTOR = 4.0
_DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16}


def transformers_model(model: Model, dtype: str = "f32", device: str = "cpu", stored: str = "f32") -> Any:
    """transformers' model with these weights, in eval mode. `dtype`: f64, f32 or f16.

    `stored="f16"`: matrices take the values that they have when a plan keeps them in f16.
    """
    bare, rotary = model.on_meta()
    bare = bare.to_empty(device=device).to(_DTYPES[dtype])
    bare.tie_weights()
    with torch.no_grad():
        for name, parameter in bare.named_parameters():
            value = torch.from_numpy(np.ascontiguousarray(whole(model.weights, name)))
            parameter.copy_(value.half() if stored == "f16" and value.dim() == 2 else value)
        for name, value in rotary.items():  # made in float32, as from_pretrained has them
            owner = bare.get_submodule(name.rpartition(".")[0])
            setattr(owner, name.rpartition(".")[2], value.to(device))
    return bare


def logits_after(bare: Any, tokens: Sequence[int], first: int) -> Tensor:
    """Logits (len(tokens) - first, vocab) at each position from `first` on, in one pass over all tokens."""
    device = next(bare.parameters()).device
    with torch.inference_mode():
        hidden = bare.model(input_ids=torch.tensor([list(tokens)], device=device), use_cache=False).last_hidden_state
        logits: Tensor = bare.lm_head(hidden[0, first:])
    return logits.double().cpu()


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
        logits_after(transformers_model(model, kind, device, stored), read, first)
        for kind, stored in (("f64", dtype), (dtype, dtype))
    )
    got = torch.from_numpy(np.asarray(logits)).double()
    ours_far, theirs_far = ((run - exact).abs().nan_to_num(torch.inf).amax(-1) for run in (got, theirs))
    best = exact.topk(2, -1)
    gap = best.values[:, 0] - best.values[:, 1]
    decided = gap > 2 * FACTOR * theirs_far.max()
    unequal = decided & (best.indices[:, 0] != torch.tensor(list(tokens)))
    wrong = tuple(int(i) for i in unequal.nonzero().flatten())
    return Verdict(tuple(ours_far.tolist()), tuple(theirs_far.tolist()), int(decided.sum()), wrong)
