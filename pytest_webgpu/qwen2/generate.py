"""Greedy generation: prefill in chunks, then one program a token that needs nothing from the host."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu import resources
from pytest_webgpu.compiler.build import PlanCache, build, key_of
from pytest_webgpu.compiler.load import Session
from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.gpu.job import Collect, Job, ReadBuffer, Result, Runner, RunProgram, WriteBuffer
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.qwen2.config import Model
from pytest_webgpu.qwen2.errors import BadPrompt
from pytest_webgpu.qwen2.weights import check_weights

if TYPE_CHECKING:
    from pytest_webgpu.compiler.capture import Captured

DTYPES = ("f32", "f16", "q4")
CHUNKS = (16, 128, 512)
"""Lengths of prefill steps. A plan is made for each that is needed."""
DEADLINE = 600.0
"""Seconds that one job may take: a software adapter needs seconds a token for the larger models."""


@dataclass(frozen=True)
class Chunk:
    """`length` rows of a prefill from position `start` on, of which `valid` are tokens of the prompt."""

    length: int
    start: int
    valid: int


@dataclass
class Generation:
    """`prefill_seconds`: to the first token, waited for. `decode_seconds`: of the other tokens, waited for;
    `encode_seconds`: the host's share in that. `counts`: what the decode run issued, for all its tokens.

    `logits`: (tokens, vocab) float32, if asked for.
    """

    tokens: list[int]
    prompt_tokens: int
    prefill_seconds: float
    decode_seconds: float
    encode_seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    logits: NDArray[Any] | None = None

    @property
    def tokens_per_second(self) -> float:
        """Of decode alone; NaN where there was none."""
        return (len(self.tokens) - 1) / self.decode_seconds if self.decode_seconds else float("nan")

    @property
    def counts_per_token(self) -> dict[str, float]:
        return {k: v / (len(self.tokens) - 1) for k, v in self.counts.items()} if len(self.tokens) > 1 else {}


@functools.lru_cache(maxsize=8)
def captured_step(config: str, tokens: int, capacity: int) -> Captured:
    """A step of the model of that configuration (JSON), captured once for all dtypes and fusions."""
    from pytest_webgpu.compiler.capture import capture

    bare, constants = Model("", json.loads(config)).on_meta()
    return capture(bare, tokens, capacity, constants)


class Generator:
    """A model on a runner. `dtype`: f32, f16 for weights and caches in f16, or q4 for matrices in blocks of 4 bits
    and caches in f16. `capacity`: positions of the cache, rounded up to whole chunks. `library` may hold kernels that a
    user swapped in. `tuned`: see compiler.choose; None tunes each plan for a GPU that has timestamps
    (compiler.autotune), and takes the kernels' defaults elsewhere.

    Plans are made, or taken from `cache`, when first needed; `notes` says what was not fused, `spent` the seconds of
    making them by part. Raises CompilerError and ModelError.
    """

    def __init__(
        self,
        model: Model,
        runner: Runner,
        dtype: str = "f32",
        fusions: str = "all",
        capacity: int = 1024,
        *,
        library: Library | None = None,
        chunks: Sequence[int] = CHUNKS,
        tuned: Mapping[Any, Any] | None = None,
        cache: PlanCache | None = None,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype {dtype!r}: {', '.join(DTYPES)}")
        self.model, self.runner, self.dtype, self.fusions = model, runner, dtype, fusions
        self.chunks = tuple(sorted(chunks))
        self.capacity = -(-capacity // self.chunks[0]) * self.chunks[0]
        self.library = library or Library(resources.folder("wgsl"))
        info = runner.info
        self.autotune = tuned is None and not info.software and "timestamp-query" in info.features
        self.tuned = dict(tuned or {})
        self.cache = cache or PlanCache()
        self.plans: dict[int, Plan] = {}
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.session = Session(runner, model.weights)

    def plan(self, tokens: int) -> Plan:
        """The plan of a step of `tokens` tokens; 1 is decode."""
        if tokens not in self.plans:
            key = self._key(tokens)
            plan = self.cache.get(key)
            if plan is None:
                plan = self._build(tokens)
                self.cache.put(key, plan)
            check_weights(plan, self.model.weights)
            self.plans[tokens] = plan
        return self.plans[tokens]

    def _key(self, tokens: int) -> str:
        info = self.runner.info
        adapter = (info.adapter, info.driver, info.backend, info.implementation, info.version)
        return key_of(
            self.library, config=self.model.config, tokens=tokens, capacity=self.capacity, dtype=self.dtype,
            fusions=self.fusions, tuned=adapter if self.autotune else self.tuned, features=sorted(info.features),
            limits=info.limits,
        )  # fmt: skip

    def _build(self, tokens: int) -> Plan:
        from pytest_webgpu.compiler.autotune import Tuning  # torch is not needed with a cached plan
        from pytest_webgpu.compiler.choose import Chooser

        with self._spending("capture"):
            captured = captured_step(json.dumps(dict(self.model.config)), tokens, self.capacity)
        chooser = Chooser(self.library, self.runner.info, self.dtype, self.tuned)
        with self._spending("build"):
            plan = build(captured, chooser, self.fusions)
        if self.autotune:
            with self._spending("tune"):
                found = Tuning(chooser).tune(self.runner, plan)
            with self._spending("build"):
                plan = build(captured, Chooser(self.library, self.runner.info, self.dtype, found), self.fusions)
        return plan

    @contextlib.contextmanager
    def _spending(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.spent[part] += time.perf_counter() - began

    @property
    def notes(self) -> list[str]:
        """What the plans made so far left unfused, and why."""
        return [f"step of {n}: {note}" for n, plan in sorted(self.plans.items()) for note in plan.notes]

    def chunked(self, length: int) -> list[Chunk]:
        """How a prompt is cut: a chunk is taken when it is at most twice too long, or nothing shorter is left."""
        found: list[Chunk] = []
        start = 0
        while start < length:
            left = length - start
            size = 1 if left == 1 else self._chunk(left, self.capacity - start)
            found.append(Chunk(size, start, min(size, left)))
            start += size
        return found

    def _chunk(self, left: int, room: int) -> int:
        fit = [c for c in self.chunks if c <= room]
        return next((c for i, c in enumerate(fit) if left <= c and (i == 0 or left > 2 * fit[i - 1])), None) or max(
            c for i, c in enumerate(fit) if i == 0 or c <= left
        )

    def generate(self, prompt: Sequence[int], new_tokens: int, logits: bool = False) -> Generation:
        """Exactly `new_tokens` greedy tokens after `prompt` (token ids); the end of a sequence is ignored."""
        prompt, chunks = self.ready(prompt, new_tokens)
        prefill, rows = self._prefill(prompt, chunks, logits)
        generation = Generation([], len(prompt), prefill, 0.0, 0.0)
        if new_tokens > 1:
            rows += self._decode(new_tokens - 1, logits, generation)
        generation.tokens = self._said(len(prompt), new_tokens)
        if logits:
            generation.logits = np.concatenate(rows)
        return generation

    def stream(self, prompt: Sequence[int], new_tokens: int, block: int = 8) -> Iterator[list[int]]:
        """The same tokens as they come, `block` at a time: the host looks only then, so a stop may waste one block."""
        prompt, chunks = self.ready(prompt, new_tokens)
        self._prefill(prompt, chunks, False)
        done = 1
        yield self._said(len(prompt), 1)
        while done < new_tokens:
            count = min(block, new_tokens - done)
            self._run(RunProgram(self.session.program(self.plans[1], "body"), count))
            yield self._said(len(prompt) + done, count)
            done += count

    def ready(self, prompt: Sequence[int], new_tokens: int) -> tuple[list[int], list[Chunk]]:
        """The prompt as it will be run, with every plan for it on the runner."""
        prompt = [int(t) for t in prompt]
        self._check(prompt, new_tokens)
        chunks = self.chunked(len(prompt))
        steps = {c.length for c in chunks} | ({1} if new_tokens > 1 else set())
        self.session.load(*(self.plan(s) for s in sorted(steps)))
        return prompt, chunks

    def _said(self, position: int, count: int) -> list[int]:
        """The log that the device keeps of its tokens."""
        log = ReadBuffer(self.session.name("log"), 4 * position, 4 * count)
        said: list[int] = np.frombuffer(self._run(log).blob(0), np.int32).tolist()
        return said

    def _check(self, prompt: list[int], new_tokens: int) -> None:
        if not prompt:
            raise BadPrompt("the prompt is empty: give at least one token")
        if wrong := [t for t in prompt if not 0 <= t < self.model.vocab]:
            raise BadPrompt(f"token {wrong[0]} is none: {self.model.name} has tokens 0 to {self.model.vocab - 1}")
        if new_tokens < 1:
            raise BadPrompt(f"{new_tokens} new tokens: ask for at least one")
        if len(prompt) + new_tokens > self.capacity:
            raise BadPrompt(
                f"{len(prompt)} tokens and {new_tokens} new ones do not fit the cache of {self.capacity}: "
                f"make it with capacity={len(prompt) + new_tokens} or more"
            )

    def _run(self, *commands: Any) -> Result:
        return self.runner.run(Job(commands), DEADLINE)

    def _collect(self, plan: Plan, wanted: bool) -> Collect | None:
        at = plan.logits
        return Collect(self.session.name(at.buffer), 4 * self.model.vocab, 4 * at.offset) if wanted else None

    def _prefill(self, prompt: list[int], chunks: list[Chunk], logits: bool) -> tuple[float, list[NDArray[Any]]]:
        """Runs the prompt. Seconds until the first token is there, and its logits."""
        commands = [c for chunk in chunks for c in self.chunk_commands(prompt, chunk, logits)]
        result = self._run(*commands)
        seconds = sum(v["seconds"] for v in result.values if v is not None)
        return seconds, [self._rows(result, -1)] if logits else []

    def chunk_commands(self, prompt: list[int], chunk: Chunk, logits: bool) -> Iterator[Any]:
        plan = self.plans[chunk.length]
        is_last = chunk.start + chunk.valid == len(prompt)
        ids = prompt[chunk.start : chunk.start + chunk.valid]
        collect = self._collect(plan, logits)
        if is_last:
            yield self._write("position", [len(prompt) - 1])
        if chunk.length == 1:
            yield self._write("token", ids)
            yield RunProgram(self.session.program(plan, "body"), wait=True, collect=collect)
            return
        name = f"step{chunk.length}."
        yield self._write(f"{name}ids", ids + [0] * (chunk.length - chunk.valid))
        yield self._write(f"{name}positions", range(chunk.start, chunk.start + chunk.length))
        yield RunProgram(self.session.program(plan, "body"))
        if is_last:
            yield self._write(f"{name}last", [chunk.valid - 1])
            yield RunProgram(self.session.program(plan, "head"), wait=True, collect=collect)

    def _write(self, name: str, numbers: Sequence[int]) -> WriteBuffer:
        return WriteBuffer(self.session.name(name), np.asarray(numbers, np.int32).tobytes())

    def _decode(self, count: int, logits: bool, generation: Generation) -> list[NDArray[Any]]:
        plan = self.plans[1]
        result = self._run(
            RunProgram(self.session.program(plan, "body"), count, wait=True, collect=self._collect(plan, logits))
        )
        value = result.values[0] or {}
        generation.decode_seconds, generation.encode_seconds = value["seconds"], value["encode_seconds"]
        generation.counts = dict(result.counts)
        return [self._rows(result, 0)] if logits else []

    def _rows(self, result: Result, command: int) -> NDArray[Any]:
        return np.frombuffer(result.blob(command), np.float32).reshape(-1, self.model.vocab)

    def close(self) -> None:
        """Frees everything on the runner."""
        self.session.close()
