"""What each fusion brings: a model with none, with each named fusion added in turn, and with all.

All plans lie on the device at once and are run interleaved in random order, so that a level is compared with the one
before it by the paired rule. Dispatches are counted as they are issued, and logits held to those of the unfused plan.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.compiler.fuse import FUSIONS, chosen
from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.performance.stats import PAIRED_ROUNDS, Comparison, compare
from pytest_webgpu.qwen2.config import Model
from pytest_webgpu.qwen2.generate import Generation, Generator

SAMPLES_A_ROUND = 2  # of which a round keeps the least


@dataclass(frozen=True)
class Level:
    """A set of fusions. `name`: what it adds to the level before it."""

    name: str
    fusions: tuple[str, ...]

    @property
    def text(self) -> str:
        return ",".join(self.fusions) or "none"


def levels(fusions: str = "all") -> list[Level]:
    """None, then each of the fusions (by default every one there is) added in turn, in the order they are applied."""
    wanted = chosen(fusions)
    names = [name for name in FUSIONS if name in wanted]
    return [Level("none", ())] + [Level(f"+ {name}", tuple(names[: i + 1])) for i, name in enumerate(names)]


@dataclass(frozen=True)
class Rung:
    """A level as measured. Seconds by round: of a token without the first, the host's share in that (encoding and
    submitting), and to the first token.

    `gain` and `gain_on_none`: how many times as long the level before, and the unfused plan, took, paired (None for
    the first). `apart`: the largest distance of a logit from the unfused plan's over `compared` tokens, those up to the
    first that differs. `plan`: of a token.
    """

    level: Level
    dispatches: int
    token: tuple[float, ...]
    host: tuple[float, ...]
    first_token: tuple[float, ...]
    gain: Comparison | None
    gain_on_none: Comparison | None
    tokens: tuple[int, ...]
    apart: float
    compared: int
    notes: tuple[str, ...]
    plan: Plan

    @property
    def tokens_per_second(self) -> float:
        return 1 / median(self.token)


@dataclass(frozen=True)
class Ablation:
    """`first`: with tokens and logits, of the unfused plan."""

    model: str
    dtype: str
    prompt_tokens: int
    new_tokens: int
    rungs: tuple[Rung, ...]
    first: Generation

    def seconds_a_dispatch(self, rung: Rung) -> float | None:
        """What each dispatch had cost that the fusions of a rung save: the time saved over the dispatches saved."""
        none = self.rungs[0]
        saved = none.dispatches - rung.dispatches
        return (median(none.token) - median(rung.token)) / saved if saved else None


def measure_ablation(
    runner: Runner,
    model: Model,
    dtype: str,
    chosen_levels: Sequence[Level],
    *,
    prompt_tokens: int = 16,
    new_tokens: int = 9,
    rounds: int = PAIRED_ROUNDS,
    library: Library | None = None,
    tuned: Mapping[Any, Any] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
    between: Callable[[Sequence[Generator]], None] = lambda _: None,
) -> Ablation:
    """Times every level. Raises CompilerError, ModelError and GpuError as generation does.

    `between` is called with the levels' generators after each round, for what is to be measured beside them. A paired
    verdict needs `rounds` of 24; with fewer than 5 no gain is ever certain. `tuned` as Generator takes it.
    """
    prompt = model.drawn_prompt(prompt_tokens)
    with contextlib.ExitStack() as stack:
        made: list[Generator] = []
        firsts: list[Generation] = []
        for level in chosen_levels:
            progress(f"{model.name} {dtype}, {level.name}: plan, weights, pipelines")
            capacity = prompt_tokens + new_tokens
            generator = Generator(model, runner, dtype, level.text, capacity, library=library, tuned=tuned)
            stack.callback(generator.close)
            made.append(generator)
            firsts.append(generator.generate(prompt, new_tokens, logits=True))
        progress(f"{model.name} {dtype}: {len(made)} levels, {rounds} rounds, interleaved")
        timed = interleaved(made, prompt, new_tokens, rounds, seed, between)
        notes, plans = [tuple(g.notes) for g in made], [g.plan(1) for g in made]
    rungs: list[Rung] = []
    for level, runs, first, told, plan in zip(chosen_levels, timed, firsts, notes, plans, strict=True):
        token = minima(runs, "decode_seconds", new_tokens - 1)
        before, none = (compare(token, rungs[at].token) if rungs else None for at in (-1, 0))
        rungs.append(Rung(
            level, round(runs[0][0].counts_per_token["dispatches"]), token,
            minima(runs, "encode_seconds", new_tokens - 1), minima(runs, "prefill_seconds", 1),
            before, none, tuple(first.tokens), *distance(firsts[0], first), told, plan,
        ))  # fmt: skip
    return Ablation(model.name, dtype, prompt_tokens, new_tokens, tuple(rungs), firsts[0])


def distance(unfused: Generation, fused: Generation) -> tuple[float, int]:
    """The largest distance of a logit, and over how many tokens: after one that differs, both read other tokens."""
    pairs = list(zip(unfused.tokens, fused.tokens, strict=True))
    compared = next((i + 1 for i, (one, other) in enumerate(pairs) if one != other), len(pairs))
    apart = np.abs(_logits(unfused)[:compared] - _logits(fused)[:compared])
    return float(np.nan_to_num(apart, nan=np.inf).max()), compared


def _logits(generation: Generation) -> NDArray[Any]:
    assert generation.logits is not None
    return generation.logits.astype(np.float64)


def interleaved(
    made: Sequence[Generator], prompt: Sequence[int], new_tokens: int, rounds: int, seed: int,
    between: Callable[[Sequence[Generator]], None] = lambda _: None,
) -> list[list[list[Generation]]]:
    """By generator and round: SAMPLES_A_ROUND generations, those of all generators in random order within the round."""
    runs: list[list[list[Generation]]] = [[[] for _ in range(rounds)] for _ in made]
    order = random.Random(seed)
    for round_ in range(rounds):
        turns = list(range(len(made))) * SAMPLES_A_ROUND
        order.shuffle(turns)
        for index in turns:
            runs[index][round_].append(made[index].generate(prompt, new_tokens))
        between(made)
    return runs


def minima(rounds: Iterable[Iterable[Generation]], name: str, tokens: int) -> tuple[float, ...]:
    """The least of each round in the seconds of that name, a token."""
    return tuple(min(getattr(run, name) for run in runs) / tokens for runs in rounds)
