"""What a model would run at on GPUs that are not here, and which fusion would pay there.

    python -m pytest_webgpu.performance.forecast --model qwen2.5-0.5b

From published costs of a dispatch, and the vendors' bandwidths and rates: estimates, by the sum of the parts. The plans
are those that this version makes, from shapes alone; no GPU is needed but one whose features choose the kernels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_webgpu import resources
from pytest_webgpu.compiler.build import build
from pytest_webgpu.compiler.choose import Chooser
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.job import DeviceInfo
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.performance import plan_work
from pytest_webgpu.performance.ablation import levels
from pytest_webgpu.performance.model import CostModel, Token, published
from pytest_webgpu.qwen2.config import Model, find_model
from pytest_webgpu.qwen2.generate import captured_step

PUBLISHED = "published/arxiv-2604.02344.json"
CAPACITY = 1024
LARGE = 1 << 31  # bytes of a binding: a GPU's, so that no weight is cut in pieces


@dataclass(frozen=True)
class Row:
    """A level of fusions on one GPU: tokens a second, and how many times as fast it is as the level before."""

    level: str
    dispatches: int
    tokens_per_second: float
    gain: float
    share_of_dispatches: float


def tokens_of(model: Model, dtype: str, info: DeviceInfo, position: int = CAPACITY // 2) -> dict[str, Token]:
    """What a token at that position issues and does, at each level of fusions. Raises CompilerError."""
    captured = captured_step(json.dumps(dict(model.config)), 1, CAPACITY)
    limits = {**info.limits, "max-storage-buffer-binding-size": LARGE, "max-buffer-size": LARGE}
    chooser = Chooser(Library(resources.folder("wgsl")), replace(info, limits=limits), dtype, {})
    return {level.name: plan_work.token(build(captured, chooser, level.fusions), position) for level in levels()}


def forecast(cost: CostModel, tokens: Mapping[str, Token]) -> list[Row]:
    """Of each level, in their order."""
    rows, before = [], None
    for level, token in tokens.items():
        parts, seconds = cost.parts(token), cost.seconds(token)
        rows.append(Row(level, token.dispatches, 1 / seconds, (before or seconds) / seconds,
                        parts["dispatches"] / seconds))  # fmt: skip
        before = seconds
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-0.5b")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f16"))
    parser.add_argument("--backend", default="auto")
    asked = parser.parse_args()
    data = json.loads((resources.folder("baselines") / PUBLISHED).read_text())
    tokens = tokens_of(find_model(asked.model), asked.dtype, choose(asked.backend).info)
    print(f"{asked.model} {asked.dtype}, position {CAPACITY // 2}; estimates, not measurements")
    for name, cost in published(data).items():
        each, wait = 1e6 * cost.per_dispatch, 1e6 * cost.fixed
        print(f"\n{name} ({cost.source})")
        print(f"  {each:.1f} us a dispatch, {wait:.0f} us a wait, {cost.bandwidth / 1e9:.0f} GB/s")
        for row in forecast(cost, tokens):
            print(f"  {row.level:18}{row.dispatches:5} dispatches {row.tokens_per_second:8.1f} tokens/s  "
                  f"{row.gain:5.2f} x the level above; dispatches are {row.share_of_dispatches:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
