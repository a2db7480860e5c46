"""Named torch functions, each as the formulas by which kernels compute it. The first is the reference's own.

Every formula is evaluated with its running error, and the largest bound holds: a kernel may use any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pytest_webgpu.conformance.running_error import RunningError, carry, rule

Formula = Callable[..., Tensor]


def _any_of(*formulas: Formula) -> Callable[..., Tensor]:
    def evaluate(run: RunningError, *args: Any, **kwargs: Any) -> Tensor:
        return widest(run, formulas, args, kwargs)

    return evaluate


def widest(run: RunningError, formulas: Any, args: Any, kwargs: Any) -> Tensor:
    """The first formula's value with the largest of the formulas' errors."""
    with run:
        results = [f(*args, **kwargs) for f in formulas]
    value, error = results[0], run.error(results[0])
    for other in results[1:]:
        error = torch.maximum(error, run.error(other) + (other - value).abs().nan_to_num(torch.inf))
    return carry(value, error)


def _shift(x: Tensor, dim: int) -> Tensor:
    """The maximum of a row, as a number that any near it could replace: its own error cancels."""
    return carry(x.amax(dim, keepdim=True), None)


def _softmax(x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    weights = torch.exp(x - _shift(x, dim))
    return weights / weights.sum(dim, keepdim=True)


def _softmax_by_logarithm(x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return torch.exp(_log_softmax_at_once(x, dim))


def _softmax_by_two(x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    weights = torch.exp2((x - _shift(x, dim)) * (1 / math.log(2)))
    return weights / weights.sum(dim, keepdim=True)


def _log_softmax(x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    centred = x - _shift(x, dim)
    return centred - torch.log(torch.exp(centred).sum(dim, keepdim=True))


def _log_softmax_at_once(x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    top = _shift(x, dim)
    return x - (top + torch.log(torch.exp(x - top).sum(dim, keepdim=True)))


def _logsumexp(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    top = _shift(x, dim)
    result = top + torch.log(torch.exp(x - top).sum(dim, keepdim=True))
    return result if keepdim else result.squeeze(dim)


def _silu(x: Tensor, inplace: bool = False) -> Tensor:
    return x * torch.sigmoid(x)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


def _gelu_by_sigmoid(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return _gelu(x)


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    scaled = x * beta
    smooth = torch.relu(scaled) + torch.log(1 + torch.exp(-torch.abs(scaled)))
    return torch.where(scaled > threshold, x, smooth / beta)


def _softplus_direct(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    scaled = x * beta
    return torch.where(scaled > threshold, x, torch.log(1 + torch.exp(scaled.clamp(max=threshold))) / beta)


def _leaky_relu(x: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return torch.where(x > 0, x, x * negative_slope)


def _elu(x: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return torch.where(x > 0, x, alpha * (torch.exp(x.clamp(max=0)) - 1))


def _rms_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    square = x.square().mean(dims, keepdim=True) + (torch.finfo(torch.float32).eps if eps is None else eps)
    result = x * torch.rsqrt(square)
    return result if weight is None else result * weight


def _layer_norm(
    x: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    result = (x - x.mean(dims, keepdim=True)) * torch.rsqrt(x.var(dims, unbiased=False, keepdim=True) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Tensor:
    return x / x.norm(p, dim, keepdim=True).clamp_min(eps)


def _attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    if enable_gqa:
        group = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scores = torch.matmul(q, k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if attn_mask is not None:
        boolean = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if boolean else scores + attn_mask
    return torch.matmul(torch.softmax(scores, -1), v)


rule("softmax")(_any_of(_softmax, _softmax_by_logarithm, _softmax_by_two))
rule("log_softmax")(_any_of(_log_softmax, _log_softmax_at_once))
rule("logsumexp")(_any_of(_logsumexp))
rule("silu")(_any_of(_silu))
rule("gelu")(_any_of(_gelu, _gelu_by_sigmoid))
rule("softplus")(_any_of(_softplus, _softplus_direct))
rule("leaky_relu")(_any_of(_leaky_relu))
rule("elu")(_any_of(_elu))
rule("relu6")(_any_of(lambda x, inplace=False: x.clamp(0, 6)))
rule("log1p")(_any_of(lambda x: torch.log(1 + x)))
rule("expm1")(_any_of(lambda x: torch.exp(x) - 1))
rule("logsigmoid")(_any_of(lambda x: -_softplus(-x)))
rule("rms_norm")(_any_of(_rms_norm))
rule("layer_norm")(_any_of(_layer_norm))
rule("normalize")(_any_of(_normalize))
rule("scaled_dot_product_attention")(_any_of(_attention))
rule("addmm")(_any_of(lambda bias, a, b: bias + torch.matmul(a, b)))
rule("baddbmm")(_any_of(lambda bias, a, b: bias + torch.matmul(a, b)))
rule("lerp")(_any_of(lambda a, b, w: a + w * (b - a)))
rule("addcmul")(_any_of(lambda a, b, c, value=1: a + value * (b * c)))
rule("remainder")(_any_of(lambda a, b: a - torch.floor(a / b) * b))
