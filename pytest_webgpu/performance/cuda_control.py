"""`python -m pytest_webgpu.performance.cuda_control`: what fusing an op's operations brings where a launch is cheap.

The paper's control: the same operations by torch, eager (a launch each) and fused by torch.compile. A call's cost is
the slope of T(N), as everywhere here, so the wait is in neither; both are timed interleaved and compared by rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pytest_webgpu.performance.stats import PAIRED_ROUNDS, Comparison, Fit, compare, cost

COUNTS = (1, 2, 5, 10, 20, 50, 100)
HIDDEN, INNER, HEADS, HEAD_DIM = 896, 4864, 14, 64  # of Qwen2.5-0.5B


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return torch.nn.functional.silu(gate) * up


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


OPS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "rms_norm": (rms_norm, ((1, HIDDEN), (HIDDEN,))),
    "swiglu": (swiglu, ((1, INNER), (1, INNER))),
    "rope": (rope, ((HEADS, HEAD_DIM), (HEAD_DIM,), (HEAD_DIM,))),
}


@dataclass(frozen=True)
class Control:
    """`gain`: how many times as long the eager op takes, by paired rounds."""

    op: str
    eager: Fit
    fused: Fit
    gain: Comparison

    def __str__(self) -> str:
        return (f"{self.op}: {1e6 * self.eager.b.value:.2f} us a call eager, {1e6 * self.fused.b.value:.2f} compiled: "
                f"{self.gain.ratio:.2f} [{self.gain.low:.2f}, {self.gain.high:.2f}] times as fast, "
                f"p {self.gain.p_slower:.2g}")  # fmt: skip


def measure_control(
    device: str = "cuda", rounds: int = PAIRED_ROUNDS, compiler: Callable[[Any], Any] = torch.compile, seed: int = 0
) -> list[Control]:
    """Each op at one token's shape, f32. MeasurementError where noise outweighs a call."""
    found, order = [], random.Random(seed)
    wait: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.inference_mode():
        for name, (op, shapes) in OPS.items():
            tensors = [torch.randn(shape, device=device) for shape in shapes]
            ways = {"eager": op, "fused": compiler(op)}
            samples: dict[str, list[tuple[int, int, int, float]]] = {way: [] for way in ways}
            for turn in range(-2, rounds):  # the first two compile and warm up
                todo = [(way, n) for way in ways for n in COUNTS]
                order.shuffle(todo)
                for way, n in todo:
                    seconds = _seconds(ways[way], tensors, n, wait)
                    if turn >= 0:
                        samples[way].append((turn, n, 1, seconds))
            eager, fused = (cost(samples[way]) for way in ways)
            found.append(Control(name, eager, fused, compare(fused.b.per_round, eager.b.per_round)))
    return found


def _seconds(op: Callable[..., Tensor], tensors: Sequence[Tensor], count: int, wait: Callable[[], object]) -> float:
    wait()
    began = time.perf_counter()
    for _ in range(count):
        op(*tensors)
    wait()
    return time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    name, found = torch.cuda.get_device_name(), measure_control()
    print(name, *found, sep="\n")
    if asked.out:
        rows: list[Mapping[str, Any]] = [
            {"op": c.op, "eager": c.eager.b.value, "fused": c.fused.b.value, "gain": c.gain.ratio, "low": c.gain.low,
             "high": c.gain.high, "p": c.gain.p_slower}
            for c in found
        ]  # fmt: skip
        asked.out.write_text(json.dumps({"adapter": name, "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
