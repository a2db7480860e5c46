"""`python -m pytest_webgpu generate --model FOLDER "prompt"`: a model's answer, on WebGPU, as it comes."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pytest_webgpu", description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("generate", help="greedy tokens after a prompt")
    one.add_argument("prompt")
    one.add_argument("--model", required=True, help="a folder in Hugging Face layout, with a tokenizer")
    one.add_argument("--dtype", choices=("f32", "f16", "q4"), default="f16", help="of weights and caches")
    one.add_argument("--new", type=int, default=128, help="tokens at most")
    one.add_argument("--plain", action="store_true", help="the prompt as it is, without the model's chat template")
    one.add_argument("--backend", default="auto")
    one.add_argument("--implementation", default="wgpu-native")
    one.add_argument("--adapter")
    return generate(parser.parse_args(arguments))


def generate(asked: argparse.Namespace) -> int:
    """Text to standard output; what it took, or what is wrong, to standard error. Exit code 2 for the latter."""
    from pytest_webgpu.compiler.errors import CompilerError
    from pytest_webgpu.gpu import open_runner
    from pytest_webgpu.gpu.adapters import choose
    from pytest_webgpu.gpu.job import GpuError
    from pytest_webgpu.qwen2.config import find_model
    from pytest_webgpu.qwen2.errors import ModelError
    from pytest_webgpu.qwen2.generate import Generator

    try:
        model = find_model(asked.model)
        tokenizer = model.tokenizer()
        prompt = tokens_of(tokenizer, asked.prompt, asked.plain)
        runner = open_runner(choose(asked.backend, asked.implementation, asked.adapter), limits="max")
        generator = Generator(model, runner, asked.dtype, capacity=len(prompt) + asked.new)
        began, said = time.perf_counter(), 0
        for text, count in texts(tokenizer, generator.stream(prompt, asked.new)):
            print(text, end="", flush=True)
            said = count
        seconds = time.perf_counter() - began
        weights = next(iter(generator.plans.values())).bytes("weight") / 1e6
        took = f"{said} tokens in {seconds:.2f} s with start-up, on {runner.info.adapter}"
        print(f"\n{took}; {weights:.1f} MB of weights in {asked.dtype}", file=sys.stderr)
        runner.close()
    except (ModelError, CompilerError, GpuError) as error:
        print(f"pytest_webgpu: {error}", file=sys.stderr)
        return 2
    return 0


def tokens_of(tokenizer: Any, prompt: str, plain: bool) -> list[int]:
    """Token ids of the prompt, as the question of a chat where the tokenizer has a template."""
    if plain or not tokenizer.chat_template:
        return list(tokenizer(prompt).input_ids)
    message = [{"role": "user", "content": prompt}]
    return list(tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False))


def texts(tokenizer: Any, blocks: Iterator[list[int]]) -> Iterator[tuple[str, int]]:
    """What each block of tokens adds to the text, and how many tokens there are by then; ends at the end of a turn.

    A character may need several tokens: what is not yet whole waits for the next block.
    """
    tokens: list[int] = []
    shown = ""
    for block in blocks:
        ended = tokenizer.eos_token_id in block
        tokens += block[: block.index(tokenizer.eos_token_id)] if ended else block
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        if not text.endswith("\ufffd") or ended:
            yield text[len(shown) :], len(tokens)
            shown = text
        if ended:
            return


if __name__ == "__main__":
    sys.exit(main())
