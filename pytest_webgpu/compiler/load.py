"""Plans onto a runner: buffers made and filled once, pipelines shared, a program for each section of each plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.compiler.plan import Buffer, Pass, Plan, Rows, Step
from pytest_webgpu.compiler.quantise import NotQuantisable, quantise
from pytest_webgpu.gpu.job import (
    Bound,
    Command,
    Dispatch,
    Drop,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    Runner,
    WriteBuffer,
)  # fmt: skip

UPLOAD = 64 << 20
"""Bytes of weights in flight at once: they are read, packed and written in pieces, never held as a whole."""
_sessions = itertools.count()


class Weights(Protocol):
    """Where a model's tensors come from, by their names in the checkpoint."""

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str, first: int, count: int) -> NDArray[Any]:
        """`count` rows (elements of a vector) from row `first` on, as float32 or float16."""
        ...


def rows_of(weights: Weights, rows: Rows) -> NDArray[Any]:
    return weights.read(rows.tensor, rows.first, rows.count)


def pieces(weights: Weights, buffer: Buffer, most: int = UPLOAD) -> Iterator[tuple[int, bytes]]:
    """A weight buffer as (offset, bytes): at most `most` bytes each, whole words, the last one padded."""
    width = int(np.prod(buffer.shape[1:], dtype=int))
    size = 2 if buffer.storage == "f16x2" else 4  # an element's bytes; of q4_32 while it is read and not yet quantised
    step = max(1, most // (width * size) // 2 * 2)  # an even number of rows ends on a whole word
    offset, held = 0, b""
    for rows in buffer.rows:
        for first in range(0, rows.count, step):
            part = Rows(rows.tensor, rows.first + first, min(step, rows.count - first))
            data = held + _stored(rows_of(weights, part), buffer)
            whole = len(data) // 4 * 4
            held = data[whole:]
            if whole:
                yield offset, data[:whole]
            offset += whole
    if held:
        yield offset, held + bytes(4 - len(held))


def _stored(values: NDArray[Any], buffer: Buffer) -> bytes:
    if buffer.storage == "q4_32":
        try:
            return quantise(values).tobytes()
        except NotQuantisable as error:
            raise NotQuantisable(f"{buffer.name}: {error}: take f16 or f32") from None
    dtype = np.dtype("<f2") if buffer.storage == "f16x2" else np.dtype("<f4")
    return np.ascontiguousarray(values, dtype=dtype).tobytes()


class Session:
    """Plans of one model on one runner. What plans share is uploaded once; `close` frees all of it.

    When the runner had to start a fresh device, everything is made anew at the next `load`.
    """

    def __init__(self, runner: Runner, weights: Weights) -> None:
        self.runner, self.weights = runner, weights
        self.prefix = f"model{next(_sessions)}/"
        self.generation = runner.generation
        self.made: set[str] = set()

    def name(self, name: str) -> str:
        """What a buffer or program of this session is called on the runner."""
        return self.prefix + name

    def program(self, plan: Plan, section: str) -> str:
        return self.name(f"step{plan.tokens}.{section}")

    def load(self, *plans: Plan) -> None:
        """Makes what is not there yet: buffers (weights streamed), pipelines and programs."""
        if self.generation != self.runner.generation:
            self.generation, self.made = self.runner.generation, set()
        for plan in plans:
            buffers = [b for b in plan.buffers.values() if b.name not in self.made]
            self._run([MakeBuffer(self.name(b.name), b.size, _usage(b)) for b in buffers])
            self._run(list(self._small(plan, buffers)))
            self._upload([b for b in buffers if b.kind == "weight"])
            self.made.update(b.name for b in buffers)
            self._run(list(self._programs(plan)))

    def _run(self, commands: Sequence[Command]) -> None:
        if commands:
            self.runner.run(Job(tuple(commands)))

    def _small(self, plan: Plan, buffers: Sequence[Buffer]) -> Iterator[Command]:
        for b in buffers:
            if b.data:
                data = bytes.fromhex(b.data)
                yield WriteBuffer(self.name(b.name), data + bytes(-len(data) % 4))
            elif b.kind == "constant":
                yield WriteBuffer(self.name(b.name), plan.constants[b.name].tobytes())

    def _upload(self, buffers: Sequence[Buffer]) -> None:
        """Streams weights: small ones together, so that a job carries up to UPLOAD bytes."""
        waiting: list[Command] = []
        size = 0
        for b in buffers:
            for offset, data in pieces(self.weights, b):
                if size + len(data) > UPLOAD:
                    self._run(waiting)
                    waiting, size = [], 0
                waiting.append(WriteBuffer(self.name(b.name), data, offset))
                size += len(data)
        self._run(waiting)

    def _programs(self, plan: Plan) -> Iterator[Command]:
        sections: dict[str, list[Dispatch]] = {}
        for step in plan.steps:
            for p in step.passes:
                pipeline = self._pipeline(step, p)
                if pipeline not in self.made:
                    kernel = plan.kernels[step.sha]
                    self.made.add(pipeline)
                    yield MakePipeline(
                        pipeline, kernel.code, p.entry, p.slots, p.constants, kernel.features, p.workgroup_bytes
                    )
            sections.setdefault(step.section, []).extend(self.dispatches(step))
        for section, dispatches in sections.items():
            program = self.program(plan, section)
            if program not in self.made:
                self.made.add(program)
                yield MakeProgram(program, tuple(dispatches))

    def dispatches(self, step: Step) -> list[Dispatch]:
        """A step's passes, of a plan that is loaded."""
        return [
            Dispatch(
                self._pipeline(step, p),
                tuple(Bound(b.group, b.binding, self.name(b.buffer), b.offset, b.size) for b in p.bound),
                p.workgroups,
                step.op,
            )
            for p in step.passes
        ]

    def _pipeline(self, step: Step, p: Pass) -> str:
        constants = ",".join(f"{k}={v:g}" for k, v in sorted(p.constants.items()))
        return self.name(f"{step.sha}:{p.entry}({constants})")

    def close(self) -> None:
        if self.generation == self.runner.generation:
            self._run([Drop((self.prefix + "*",))])
        self.made = set()


def _usage(buffer: Buffer) -> Any:
    return "uniform" if buffer.kind == "uniform" else "storage"
