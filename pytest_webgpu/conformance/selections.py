"""Torch operations that move elements and round none: the same move is made on the errors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_webgpu.conformance.running_error import RULES, RunningError, carry, error_of, tensors

NAMES = (
    "T mT H mH t clone contiguous detach reshape view view_as reshape_as flatten unflatten ravel squeeze unsqueeze "
    "permute transpose swapaxes swapdims movedim moveaxis expand expand_as broadcast_to repeat repeat_interleave tile "
    "chunk split tensor_split unbind narrow select flip roll rot90 cat concat concatenate stack hstack vstack "
    "getitem index_select gather take take_along_dim as_strided unfold diagonal diag tril triu index_copy index_put "
    "scatter select_scatter slice_scatter masked_select copy masked_fill fill zero pad broadcast_tensors meshgrid "
    "embedding setitem cpu cuda real"
).split()


def move(run: RunningError, *args: Any, **kwargs: Any) -> Any:
    """The selection `run.function`, made on the values and on their errors; in place where the function is."""
    given = list(tensors((args, kwargs)))
    uncertain = any(error_of(t) is not None and not t.is_floating_point() for t in given)
    exact = all(error_of(t) is None for t in given) and not _rounds(args, kwargs)
    if run.inplace and not exact:
        run.ensure_error(args[0])
    result = run.function(*args, **kwargs)
    target = args[0] if run.inplace else result
    if uncertain and len(given) > 1:  # chosen by an index that is itself uncertain
        for value in tensors((target,)):
            carry(value, torch.full_like(value, torch.inf, dtype=torch.float64))
    elif run.inplace:
        if error_of(args[0]) is not None:
            run.function(*_errors(args), **_errors(kwargs))
    else:
        errors = None if exact else list(tensors((run.function(*_errors(args), **_errors(kwargs)),)))
        for i, value in enumerate(tensors((result,))):
            carry(value, None if errors is None else errors[i])
    return result


def _rounds(args: Any, kwargs: Any) -> bool:
    """Whether a number among the arguments is one that f32 cannot hold."""
    return any(isinstance(v, float) and _rounding(v) > 0 for v in (*args, *kwargs.values()))


def _rounding(value: float) -> float:
    single = torch.tensor(value, dtype=torch.float32).item()
    return abs(value - single) if abs(value) <= 3.4e38 else 0.0


def _errors(values: Any) -> Any:
    """The arguments of a selection, with errors in place of values."""
    if isinstance(values, dict):
        return {k: _errors(v) for k, v in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(_errors(v) for v in values)
    if isinstance(values, Tensor) and (values.is_floating_point() or error_of(values) is not None):
        error = error_of(values)
        return torch.zeros_like(values, dtype=torch.float64) if error is None else error
    return _rounding(values) if isinstance(values, float) else values


RULES.update(dict.fromkeys(NAMES, move))
