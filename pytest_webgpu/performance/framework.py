"""What stands between a dispatch as the API takes it and one as a framework issues it: a layer less the one before.

Layers of this package: a dispatch recorded by the timing loop; the same as a step of a program made ahead, replayed
(as plans are); that replay asked for by a job, which crosses to the runner's process. On top of it stands a call of
what torch.compile made (`compiled_calls`); whoever has more (an op of an eager device) gives it as `calls`.
"""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.gpu.job import Bound, Dispatch, Drop, Job, MakeProgram, Measure, Runner, RunProgram, Variant
from pytest_webgpu.performance.dispatch import prepare
from pytest_webgpu.performance.dispatch_report import PREFIX, Setup
from pytest_webgpu.performance.stats import Fit, MeasurementError, cost

COUNTS = (1, 2, 5, 10, 20, 50, 100, 200)
LAYERS = ("recorded dispatch", "planned replay", "job that replays")
COMPILED, COMPILED_COUNTS = "torch.compile call", (1, 50, 200)
TRIES = 3  # of a layer and N in a round, of which the least counts: they are timed from outside, one at a time
Calls = Mapping[int, Callable[[], Any]]  # each issues so many dispatches, and returns when they are done


@dataclass(frozen=True)
class Layer:
    """T(N) of a layer. `more_a` and `more_b`: seconds a call and a dispatch over the layer before (0 for the first)."""

    name: str
    line: Fit
    more_a: float
    more_b: float


def measure_framework(
    runner: Runner, *, calls: Mapping[str, Calls] | None = None, rounds: int = 20, seed: int = 0
) -> list[Layer]:
    """Every layer at every N, interleaved in random order, a few seconds. MeasurementError where they give no line."""
    base, order = Setup(), random.Random(seed)
    samples: dict[str, list[tuple[int, int, int, float]]] = {name: [] for name in (*LAYERS, *(calls or {}))}
    try:
        prepare(runner, [base])
        step = Dispatch(base.program, (Bound(0, 0, f"{base.program}.0"),), (1, 1, 1))
        programs = {n: f"{PREFIX}replayed{n}" for n in COUNTS}
        runner.run(Job(tuple(MakeProgram(name, (step,) * n) for n, name in programs.items())))
        for turn in range(-1, rounds):  # the first warms up
            found = _round(runner, base.program, programs, calls or {}, order)
            if turn >= 0:
                for name, n, seconds in found:
                    samples[name].append((turn, n, 1, seconds))
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))
    lines = {name: cost(taken) for name, taken in samples.items()}
    layers: list[Layer] = []
    for name, line in lines.items():
        before = layers[-1].line if layers else line
        layers.append(Layer(name, line, line.a.value - before.a.value, line.b.value - before.b.value))
    return layers


@contextlib.contextmanager
def compiled_calls(runner: Runner, counts: Sequence[int] = COMPILED_COUNTS) -> Iterator[Calls]:
    """Functions of N additions of 64 elements, each a dispatch, compiled for the runner's adapter: a call of one takes
    a tensor of torch and gives one, so it writes and reads back too. Compiling takes seconds."""
    import torch

    from pytest_webgpu.compiler.torch_backend import Compiled, compile_on

    made: list[Compiled] = []

    def backend(module: Any, examples: Any) -> Compiled:
        made.append(compile_on(runner, module, examples))
        return made[-1]

    def chain(count: int) -> Callable[[], Any]:
        def add(x: Any, y: Any) -> Any:
            for _ in range(count):
                x = x + y
            return x

        compiled = torch.compile(add, backend=backend, dynamic=False, fullgraph=True)
        with torch.no_grad():
            compiled(x, y)
        if (issued := sum(len(step.passes) for step in made[-1].plan.steps)) != count:
            raise MeasurementError(f"{count} additions were compiled to {issued} dispatches")
        return lambda: compiled(x, y)

    x, y = torch.zeros(64), torch.ones(64)
    try:
        yield {count: chain(count) for count in counts}
    finally:
        for one in made:
            one.close()
        torch.compiler.reset()  # dynamo refuses a line of code's ninth plan, and every implementation brings three


def _round(
    runner: Runner, program: str, programs: Mapping[int, str], calls: Mapping[str, Calls], order: random.Random
) -> list[tuple[str, int, float]]:
    """(layer, N, seconds) of each layer at each N."""
    todo = [(name, n) for name in LAYERS[1:] for n in COUNTS] + [(name, n) for name, of in calls.items() for n in of]
    order.shuffle(todo)
    recorded = Variant("recorded", program, "one-pass", COUNTS, rounds=1)
    value = runner.run(Job((Measure((recorded,), order.getrandbits(16), 0.0, 0.0),))).values[0]
    assert value is not None
    found = [(LAYERS[0], int(n), float(seconds) / int(repeats)) for _, _, n, repeats, seconds in value["samples"]]
    for name, n in todo:
        once = calls[name][n] if name in calls else functools.partial(_replayed, runner, programs[n])
        tries = []
        for _ in range(TRIES):
            began = time.perf_counter()
            inside = once()
            whole = time.perf_counter() - began
            tries.append(inside if name == LAYERS[1] else whole)
        found.append((name, n, min(tries)))
    return found


def _replayed(runner: Runner, program: str) -> float:
    """The seconds that the runner's own process sees of it."""
    value = runner.run(Job((RunProgram(program, wait=True),))).values[0]
    assert value is not None
    return float(value["seconds"])
