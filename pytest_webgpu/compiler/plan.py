"""A plan: everything that replaying one step of a model needs, as data. Nothing here imports torch.

Buffers are bound whole or in part; steps run in order, each one op by one kernel, each pass of it one dispatch. The
texts of the kernels are part of the plan, so that a browser can replay it as well as this process.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.compiler.errors import CompilerError
from pytest_webgpu.gpu.job import Slot

Kind = Literal["weight", "constant", "cache", "state", "input", "activation", "scratch", "uniform", "number"]
Storage = Literal["f32", "f16x2", "q4_32", "i32"]
BLOCKS = {"f16x2": (2, 4), "q4_32": (32, 20)}  # elements and bytes of the least that is stored; else 1 and 4
SCHEMA = 2


def bytes_of(storage: str, count: int) -> int:
    """Bytes that `count` elements take, up to a whole word or block."""
    elements, size = BLOCKS.get(storage, (1, 4))
    return -(-count // elements) * size


@dataclass(frozen=True)
class Rows:
    """Rows of a tensor in the checkpoint (all of a vector: its elements are its rows)."""

    tensor: str
    first: int
    count: int


@dataclass(frozen=True)
class Buffer:
    """`shape`: logical; of a weight the sum of its `rows`. `size`: bytes, a multiple of 16. `data`: of uniforms and
    numbers, in hex. Plans of one model share weights, constants, caches and state: equal names are one buffer."""

    name: str
    kind: Kind
    storage: Storage
    shape: tuple[int, ...]
    size: int
    rows: tuple[Rows, ...] = ()
    data: str = ""


@dataclass(frozen=True)
class Ref:
    """A tensor: `shape` elements of a buffer, from element `offset` on."""

    buffer: str
    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Binding:
    """What a pass binds: bytes of a buffer."""

    group: int
    binding: int
    buffer: str
    offset: int
    size: int


@dataclass(frozen=True)
class Pass:
    entry: str
    workgroups: tuple[int, int, int]
    constants: Mapping[str, float]
    slots: tuple[Slot, ...]
    bound: tuple[Binding, ...]
    workgroup_bytes: int


@dataclass(frozen=True)
class Step:
    """One op. `arguments` and `outputs` by the contract's names; `on_device`: scalars read from element 0 of a tensor.

    `where`: the layer, and the model's line that it comes from. `section`: "body", or "head" from the row that
    gives the logits on.
    """

    op: str
    section: str
    where: str
    dims: Mapping[str, int]
    scalars: Mapping[str, float]
    on_device: Mapping[str, Ref]
    arguments: Mapping[str, Ref]
    outputs: Mapping[str, Ref]
    kernel: str
    sha: str
    tune: Mapping[str, int]
    passes: tuple[Pass, ...]


@dataclass(frozen=True)
class Kernel:
    """`features`: WebGPU features that its code uses; the runner adds the lines that a compiler needs for them."""

    name: str
    code: str
    features: tuple[str, ...]


@dataclass
class Plan:
    """One step of `tokens` tokens over a cache of `capacity`. `results`: of a decoder its logits. `notes`: what was not
    fused, and why."""

    tokens: int
    capacity: int
    dtype: str
    fusions: tuple[str, ...]
    buffers: dict[str, Buffer]
    steps: tuple[Step, ...]
    kernels: dict[str, Kernel]
    results: tuple[Ref, ...]
    notes: tuple[str, ...] = ()
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def logits(self) -> Ref:
        return self.results[0]

    @property
    def dispatches(self) -> int:
        return sum(len(s.passes) for s in self.steps)

    def bytes(self, *kinds: Kind) -> int:
        """Bytes of all buffers of these kinds (of all, without any)."""
        return sum(b.size for b in self.buffers.values() if not kinds or b.kind in kinds)

    def save(self, folder: Path) -> None:
        """Writes plan.json and constants.npz into a folder that exists."""
        data = {k: v for k, v in dataclasses.asdict(self).items() if k != "constants"}
        (folder / "plan.json").write_text(json.dumps({"schema": SCHEMA, **data}), encoding="utf-8")
        np.savez(folder / "constants.npz", **self.constants)  # type: ignore[arg-type]

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """The plan that `save` wrote. CompilerError where the files are not those of this version."""
        try:
            data = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
            if data.pop("schema") != SCHEMA:
                raise CompilerError(f"{folder}: a plan of another version")
            with np.load(folder / "constants.npz") as stored:
                constants = {name: stored[name] for name in stored.files}
            data["buffers"] = {n: _buffer(b) for n, b in data["buffers"].items()}
            data["steps"] = tuple(_step(s) for s in data["steps"])
            kernels = data["kernels"].items()
            data["kernels"] = {n: Kernel(k["name"], k["code"], tuple(k["features"])) for n, k in kernels}
            data |= {name: tuple(data[name]) for name in ("fusions", "notes")}
            data["results"] = tuple(map(_ref, data["results"]))
            return cls(**data, constants=constants)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CompilerError(f"{folder}: not a plan ({error}); remove the folder to make it anew") from error


def _ref(data: Mapping[str, Any]) -> Ref:
    return Ref(data["buffer"], data["offset"], tuple(data["shape"]))


def _buffer(data: Mapping[str, Any]) -> Buffer:
    return Buffer(**{**data, "shape": tuple(data["shape"]), "rows": tuple(Rows(**r) for r in data["rows"])})


def _pass(data: Mapping[str, Any]) -> Pass:
    slots, bound = tuple(Slot(**s) for s in data["slots"]), tuple(Binding(**b) for b in data["bound"])
    return Pass(**{**data, "workgroups": tuple(data["workgroups"]), "slots": slots, "bound": bound})


def _step(data: Mapping[str, Any]) -> Step:
    refs = {k: {n: _ref(r) for n, r in data[k].items()} for k in ("on_device", "arguments", "outputs")}
    return Step(**{**data, **refs, "passes": tuple(_pass(p) for p in data["passes"])})
