"""ONNX Runtime's WebGPU provider beside this project: one model, shape, prompt, cache and adapter, in one run.

    python -m pytest_webgpu.performance.onnx_peer --model qwen2.5-0.5b --dtype f16 --out FILE.json

The model is exported on the spot from the weights of the seed. Caches and tokens stay on the device on both sides, and
rounds alternate in random order. Both are held to the rule of qwen2.reference. Which provider ran each node comes from
ONNX Runtime's profile of the judged run; a timed one has none.

Exit codes: 0 when both were right and timed; 1 when either's logits or tokens are wrong, or a node ran elsewhere than
on WebGPU; 2 when a package, an adapter or a feature is missing, which is told.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import Adapter, choose, describe, list_adapters
from pytest_webgpu.gpu.job import GpuError
from pytest_webgpu.performance.onnx_graph import export
from pytest_webgpu.performance.onnx_session import PROVIDER, NoPeer, Peer, Said, require
from pytest_webgpu.performance.stats import Comparison, compare, estimate
from pytest_webgpu.performance.stats import Verdict as Worse
from pytest_webgpu.qwen2.config import SHAPES, find_model
from pytest_webgpu.qwen2.generate import Generation, Generator
from pytest_webgpu.qwen2.reference import Verdict, judge

ROUNDS = 12
ARITHMETIC = {
    "f32": "both compute in f32",
    "f16": "weights and caches are f16 on both sides; ours computes in f32, ONNX Runtime in f16",
}
METHOD = (
    "python -m pytest_webgpu.performance.onnx_peer: rounds in random order, medians with bootstrapped 95 % intervals; "
    "caches and tokens stay on the device, the last token of a round is waited for; one run of the session a token"
)


def reference_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def peers_adapter(ours: Adapter) -> str:
    """What can be known of the adapter that ONNX Runtime runs on, which its Python interface does not tell."""
    names = {a.label for a in list_adapters(ours.info.implementation) if a.info.backend not in ("gl", "d3d11")}
    if len(names) == 1:
        return f"{names.pop()}, the only one that there is"
    return (
        f"not told: it asks Dawn for the one of high performance among {', '.join(sorted(names))}; "
        "on Vulkan VK_DRIVER_FILES can leave one"
    )


def judged(peer: Peer, generator: Generator, prompt: Sequence[int], new: int) -> tuple[Said, Verdict, bool, str]:
    """The peer's tokens, the verdict on them, whether the prompt went in one step, and a note where it could not.

    A prompt runs other kernels than a token. Where they are wrong, the prompt goes in a token a step, so that what
    follows it can be compared.
    """
    note = ""
    for at_once in (True, False):
        said = peer.generate(prompt, new, at_once, logits=True)
        assert said.logits is not None
        verdict = judge(generator.model, prompt, said.tokens, said.logits, generator.dtype, reference_device())
        if verdict.ok:
            break
        note = note or f"with the prompt in one step {verdict}"
    return said, verdict, at_once, note


def alternate(
    ways: Mapping[str, Callable[[], Generation | Said]], rounds: int, seed: int = 0
) -> dict[str, list[Generation | Said]]:
    """Runs each once a round, in random order; the first round warms up and does not count."""
    order, found = random.Random(seed), {name: list[Generation | Said]() for name in ways}
    for turn in range(-1, rounds):
        todo = list(ways)
        order.shuffle(todo)
        for name in todo:
            said = ways[name]()
            if turn >= 0:
                found[name].append(said)
    return found


def times(rounds: Sequence[Generation | Said], new: int) -> dict[str, Any]:
    """Milliseconds a token and to the first one, and tokens a second, each with the interval of its median."""
    token = estimate([1e3 * r.decode_seconds / (new - 1) for r in rounds])
    first = estimate([1e3 * r.prefill_seconds for r in rounds])
    speed = estimate([1e3 / ms for ms in token.per_round])
    return {"token_ms": asdict(token), "first_token_ms": asdict(first), "tokens_per_second": asdict(speed)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny", choices=tuple(SHAPES))
    parser.add_argument("--dtype", default="f32", choices=("f32", "f16"))
    parser.add_argument("--prompt", type=int, default=32, help="tokens")
    parser.add_argument("--new", type=int, default=128, help="tokens after it, 2 or more")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="2 or more; 7 or more to tell which is faster")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--implementation", default="wgpu-native", help="ours; the peer brings its own Dawn")
    parser.add_argument("--adapter")
    parser.add_argument("--fusions", default="all")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    if asked.prompt < 1 or asked.new < 2 or asked.rounds < 2:
        parser.error("--prompt takes 1 or more, --new and --rounds 2 or more")
    try:
        report = side_by_side(asked)
    except (NoPeer, GpuError) as error:
        print(f"pytest_webgpu: {error}", file=sys.stderr)
        return 2
    if asked.out:
        asked.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if report["ok"] else 1


def side_by_side(asked: argparse.Namespace) -> dict[str, Any]:
    """Exports, judges, times and prints; the report. Raises NoPeer and GpuError for what is missing."""
    runtime = require()
    model = find_model(asked.model)
    adapter = choose(asked.backend, asked.implementation, asked.adapter)
    with (
        contextlib.closing(open_runner(adapter, limits="max")) as runner,
        tempfile.TemporaryDirectory(prefix="pytest-webgpu-onnx-", ignore_cleanup_errors=True) as folder,
    ):
        generator = Generator(model, runner, asked.dtype, asked.fusions, capacity=asked.prompt + asked.new)
        try:
            path = export(model, asked.dtype, generator.capacity, Path(folder))
        except OSError as error:
            raise NoPeer(f"the model cannot be written to {folder} ({error}): TMPDIR names another place") from error
        with contextlib.closing(Peer(runtime, path, model, asked.dtype, generator.capacity)) as peer:
            prompt, new = model.drawn_prompt(asked.prompt), asked.new
            ours = generator.generate(prompt, new, logits=True)
            assert ours.logits is not None
            verdict = judge(model, prompt, ours.tokens, ours.logits, asked.dtype, reference_device())
            theirs, peers_verdict, at_once, note = judged(peer, generator, prompt, new)
            placed = peer.placement()
            rounds = alternate(
                {
                    "webgpu": lambda: generator.generate(prompt, new),
                    "onnx": lambda: peer.generate(prompt, new, at_once),
                },
                asked.rounds,
            )
    said = {"webgpu": ours.tokens, "onnx": theirs.tokens}
    ours_ms, theirs_ms = ([r.decode_seconds for r in rounds[name]] for name in ("webgpu", "onnx"))
    gain = compare(ours_ms, theirs_ms)
    elsewhere = {name: ops for name, ops in placed.items() if name != PROVIDER}
    report: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores",
        "method": METHOD,
        "model": model.name, "dtype": asked.dtype, "prompt_tokens": asked.prompt, "new_tokens": new,
        "arithmetic": ARITHMETIC[asked.dtype], "cache_positions": generator.capacity, "rounds": asked.rounds,
        "webgpu": {"adapter": describe(adapter), "fusions": asked.fusions, "verdict": str(verdict),
                   **times(rounds["webgpu"], new)},
        "onnx": {"adapter": peers_adapter(adapter), "onnxruntime": runtime.__version__,
                 "nodes_by_provider": placed, "verdict": str(peers_verdict), "prompt_in_one_step": at_once,
                 "note": note, **times(rounds["onnx"], new)},
        "times_as_fast": asdict(gain) | {"verdict": told(gain)},
        "same_tokens_each_round": all(r.tokens == said[name] for name in rounds for r in rounds[name]),
    }  # fmt: skip
    report["ok"] = verdict.ok and peers_verdict.ok and PROVIDER in placed and not elsewhere
    print(*lines(report), sep="\n")
    return report


def told(gain: Comparison) -> str:
    """Of theirs over ours."""
    if gain.verdict is Worse.WORSE:
        return "ours is faster"
    return "theirs is faster" if gain.faster else "cannot tell which is faster"


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report for people."""
    peer, gain = report["onnx"], report["times_as_fast"]
    names = {"webgpu": "pytest-webgpu", "onnx": f"ONNX Runtime {peer['onnxruntime']}, {PROVIDER}"}
    found = [f"{report['model']} {report['dtype']}, {report['new_tokens']} tokens after {report['prompt_tokens']}, "
             f"{report['rounds']} rounds; {report['arithmetic']}"]  # fmt: skip
    for key, name in names.items():
        of = report[key]
        speed, token, first = (of[k] for k in ("tokens_per_second", "token_ms", "first_token_ms"))
        found += [
            f"{name}, on {of['adapter']}",
            f"  {speed['value']:.1f} tokens/s [{speed['low']:.1f}, {speed['high']:.1f}], {token['value']:.3f} ms each,"
            f" {first['value']:.1f} ms to the first [{first['low']:.1f}, {first['high']:.1f}]",
            f"  {of['verdict']}",
        ]
    for provider, ops in peer["nodes_by_provider"].items():
        named = ", ".join(f"{op} {count}" for op, count in ops.items())
        found.append(f"  {sum(ops.values())} nodes on {provider}: {named}")
    if peer["note"]:
        found.append(f"  {peer['note']}: so the prompt went in a token a step, and the first token took that long")
    found.append(
        f"pytest-webgpu's tokens come {gain['ratio']:.2f} [{gain['low']:.2f}, {gain['high']:.2f}] times as fast: "
        f"{gain['verdict']}"
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
