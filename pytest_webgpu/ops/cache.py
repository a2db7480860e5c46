"""Writing keys and values into the cache that attention reads."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from pytest_webgpu.ops.contract import op


class Cache(NamedTuple):
    cache: Float[Tensor, "heads capacity head_dim"]


def write(cache: Tensor, x: Tensor, start: int) -> Tensor:
    """A copy of `cache` (heads, capacity, head_dim) with `x` (tokens, heads, head_dim) at positions start onwards."""
    out = cache.clone()
    out[:, start : start + x.shape[0]] = x.transpose(0, 1)
    return out


@op(where=["start + tokens <= capacity"])
def kv_cache_write(
    cache: Float[Tensor, "heads capacity head_dim"], x: Float[Tensor, "tokens heads head_dim"], start: int = 0
) -> Cache:
    """cache[h, start + t] = x[t, h], in place; everything else stays as it was."""
    return Cache(write(cache, x, start))
