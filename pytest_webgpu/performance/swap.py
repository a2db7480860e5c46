"""What a user's own kernel in the plan does to a token's time: with it and without, in paired rounds."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from pytest_webgpu import resources
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.performance.ablation import interleaved, minima
from pytest_webgpu.performance.stats import PAIRED_ROUNDS, Comparison, compare
from pytest_webgpu.qwen2.generate import Generator


@dataclass(frozen=True)
class Swap:
    """`gain`: the time of a token with the kernels over that without them. `before`: of a token without, in seconds.

    `steps`: how many of a token's steps the kernels run.
    """

    kernels: tuple[str, ...]
    steps: int
    before: float
    gain: Comparison


def measure_swap(with_it: Generator, prompt_tokens: int, new_tokens: int, rounds: int = PAIRED_ROUNDS) -> Swap | None:
    """None where the plan of a token runs none of the library's swapped kernels. Raises as generation does."""
    library = with_it.library
    ours = {kernel.sha: kernel.name for kernel in library.all() if library.is_swapped(kernel)}
    used = [ours[step.sha] for step in with_it.plan(1).steps if step.sha in ours]
    if not used:
        return None
    prompt = with_it.model.drawn_prompt(prompt_tokens)
    plain = Generator(
        with_it.model, with_it.runner, with_it.dtype, with_it.fusions, with_it.capacity,
        library=Library(resources.folder("wgsl")), chunks=with_it.chunks,
    )  # fmt: skip
    try:
        both = (plain, with_it)
        for generator in both:
            generator.generate(prompt, new_tokens)  # plans, pipelines and weights are there from then on
        runs = interleaved(both, prompt, new_tokens, rounds, seed=0)
        old, new = (minima(of_one, "decode_seconds", new_tokens - 1) for of_one in runs)
    finally:
        plain.close()
    return Swap(tuple(dict.fromkeys(used)), len(used), median(old), compare(old, new))
