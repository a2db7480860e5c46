"""The one protocol by which WGSL is run: commands and blobs that cross a process, a pipe or a network.

A job is a list of commands on named things (buffers, pipelines, programs) that live in a runner until they
are dropped, so they are made once and used by many later jobs. Commands are plain data: JSON and blobs of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from pytest_webgpu.gpu.errors import ERRORS as ERRORS
from pytest_webgpu.gpu.errors import CompileError as CompileError
from pytest_webgpu.gpu.errors import DeadlineExceeded as DeadlineExceeded
from pytest_webgpu.gpu.errors import DeviceLost as DeviceLost
from pytest_webgpu.gpu.errors import GpuError as GpuError
from pytest_webgpu.gpu.errors import LimitError as LimitError
from pytest_webgpu.gpu.errors import MissingFeature as MissingFeature
from pytest_webgpu.gpu.errors import NoAdapter as NoAdapter
from pytest_webgpu.gpu.errors import OutOfMemory as OutOfMemory
from pytest_webgpu.gpu.errors import RunnerDied as RunnerDied
from pytest_webgpu.gpu.errors import ValidationError as ValidationError

Bytes: TypeAlias = "bytes | bytearray | memoryview"
Mode = Literal["one-pass", "pass-each", "submit-each", "wait-each"]
MODES: tuple[Mode, ...] = ("one-pass", "pass-each", "submit-each", "wait-each")


@dataclass(frozen=True)
class MakeBuffer:
    """A buffer of `size` bytes (rounded up to 4); storage, uniform, indirect and copy use as `usage` says."""

    kind: ClassVar[str] = "make-buffer"
    name: str
    size: int
    usage: Literal["storage", "uniform", "indirect"] = "storage"


@dataclass(frozen=True)
class WriteBuffer:
    """`data` (a multiple of 4 bytes) into the buffer at `offset`, in the order of the queue."""

    kind: ClassVar[str] = "write-buffer"
    name: str
    data: Bytes
    offset: int = 0


@dataclass(frozen=True)
class FillBuffer:
    """Repeats the 32-bit `word` over `size` bytes from `offset` (the whole rest of the buffer when None)."""

    kind: ClassVar[str] = "fill-buffer"
    name: str
    word: int
    offset: int = 0
    size: int | None = None


@dataclass(frozen=True)
class CopyBuffer:
    kind: ClassVar[str] = "copy-buffer"
    source: str
    target: str
    size: int
    source_offset: int = 0
    target_offset: int = 0


@dataclass(frozen=True)
class ReadBuffer:
    """Value: {"blob": index into the result's blobs}. `size` None reads to the end."""

    kind: ClassVar[str] = "read-buffer"
    name: str
    offset: int = 0
    size: int | None = None


@dataclass(frozen=True)
class Slot:
    """One entry of an explicit bind-group layout."""

    group: int
    binding: int
    type: Literal["storage", "read-only-storage", "uniform"]


@dataclass(frozen=True)
class MakePipeline:
    """A compute pipeline with an explicit layout. Value: {"warnings": [...]} where the compiler gave any.

    `enable` names WebGPU features ("shader-f16", "subgroups") that the source uses: each implementation adds or
    removes the `enable` line that its own compiler needs. Pipelines of equal source and constants are shared.
    """

    kind: ClassVar[str] = "make-pipeline"
    name: str
    code: str
    entry: str
    slots: tuple[Slot, ...]
    constants: Mapping[str, float] = field(default_factory=dict)
    enable: tuple[str, ...] = ()
    workgroup_bytes: int = 0  # workgroup memory, as the caller counts it: wgpu-native does not check its limit


@dataclass(frozen=True)
class Bound:
    """What a program binds at (group, binding); `size` None binds to the end of the buffer."""

    group: int
    binding: int
    buffer: str
    offset: int = 0
    size: int | None = None


@dataclass(frozen=True)
class Dispatch:
    pipeline: str
    bound: tuple[Bound, ...]
    workgroups: tuple[int, int, int]
    label: str = ""


@dataclass(frozen=True)
class MakeProgram:
    """A list of dispatches with its bind groups made ahead. Checked against limits when made."""

    kind: ClassVar[str] = "make-program"
    name: str
    dispatches: tuple[Dispatch, ...]


@dataclass(frozen=True)
class Collect:
    """After each repetition copies `size` bytes of a buffer aside; they come back in one blob, in order."""

    buffer: str
    size: int = 4
    offset: int = 0


@dataclass(frozen=True)
class RunProgram:
    """Issues a program `times` over. With `wait`, waits for the last (a fence) before the clock is read.

    Value: {"seconds": whole, "encode_seconds": host time until the last submit returned,
    "blob": index, when `collect` was asked}. Each repetition is one pass and one submit in mode "one-pass".
    A few submits are in flight at most; waits for that are left out of encode_seconds and counted as "throttles".
    """

    kind: ClassVar[str] = "run-program"
    name: str
    times: int = 1
    mode: Mode = "one-pass"
    wait: bool = False
    collect: Collect | None = None


@dataclass(frozen=True)
class Variant:
    """One thing to time: the program's dispatches, cycled until N were issued, in `mode`.

    `fresh_bind_groups` makes each bind group anew for each dispatch. `zero_workgroups` dispatches (0, 1, 1) in
    place of the real size, which leaves the API's own cost. Before each dispatch the host is kept busy for
    `delay_seconds`: a cost that is known, to see whether a method finds it.
    """

    label: str
    program: str
    mode: Mode = "one-pass"
    counts: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    fresh_bind_groups: bool = False
    zero_workgroups: bool = False
    rounds: int = 20
    budget_seconds: float = 10.0
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class Measure:
    """Times variants, interleaved in random order, where the API is called. Each sample ends in a wait.

    Value: {"samples": [[variant index, round, N, repeats, seconds for all repeats], ...], "cut": [labels whose
    budget ran out], "warm_up_seconds": s}; with delays also "delays": how many seconds of each sample they took.
    A sample repeats its N dispatches and wait until it has lasted `min_sample_seconds`; its cost is seconds / repeats.
    """

    kind: ClassVar[str] = "measure"
    variants: tuple[Variant, ...]
    seed: int = 0
    min_sample_seconds: float = 1e-3
    warm_up_seconds: float = 3.0


@dataclass(frozen=True)
class MeasureWaits:
    """Value: {"clock_step_seconds": s, "empty_wait_seconds": [..], "read_seconds": [..] (4 bytes), "fence": name}."""

    kind: ClassVar[str] = "measure-waits"
    rounds: int = 30


@dataclass(frozen=True)
class MeasurePhases:
    """Value: {"phases": {name: [seconds, ...]}} for one dispatch of the program, phase by phase.

    Names: encoder, pass-begin, set-pipeline, set-bind-group, dispatch, pass-end, finish, submit, wait, and
    "whole", timed apart from the phases.
    """

    kind: ClassVar[str] = "measure-phases"
    program: str
    rounds: int = 200


@dataclass(frozen=True)
class MeasureCreation:
    """Times the making of objects where the API is called: no pool and no cache answers.

    Value: {"seconds": {"buffer": [...], "bind-group": [...], "pipeline": [...]}}, one figure an object. Bind group
    and pipeline are those of the program's first dispatch; each pipeline is compiled from that source with another
    trailing comment, `pipelines` times. Buffers are storage buffers of `buffer_size` bytes.
    """

    kind: ClassVar[str] = "measure-creation"
    program: str
    rounds: int = 50
    pipelines: int = 5
    buffer_size: int = 4096


@dataclass(frozen=True)
class MeasureTransfers:
    """Times writes to and reads from a storage buffer by size in bytes; each write ends in a wait.

    Value: {"write_seconds": [[...] a size], "read_seconds": [[...] a size]}. A size stops when its `budget_seconds`
    are spent, after at least two rounds.
    """

    kind: ClassVar[str] = "measure-transfers"
    sizes: tuple[int, ...] = (4, 4096, 65536, 1 << 20, 16 << 20, 64 << 20)
    rounds: int = 20
    budget_seconds: float = 1.0


@dataclass(frozen=True)
class MeasureDeviceTime:
    """The device's own time of each dispatch of the program, by timestamp queries. Raises MissingFeature without them.

    Value: {"seconds": [[one a dispatch] a round], "began_seconds": [[the same: when it began, after the first] a
    round], "quantum_seconds": the step of the device's clock}. Each dispatch is in a pass of its own; or, with
    `repeats`, one pass holds the whole program so many times, and a round has one figure, the seconds of the program
    once.
    """

    kind: ClassVar[str] = "measure-device-time"
    program: str
    rounds: int = 20
    repeats: int | None = None


@dataclass(frozen=True)
class Trace:
    """Issues a program once in one pass, after once that is not kept, and tells when the host did what.

    Value: {"host": [[name, begin, end], ...]} in seconds from its beginning: encoder, pass-begin, "dispatch" (each with
    what it sets), pass-end, finish, submit, wait.
    """

    kind: ClassVar[str] = "trace"
    program: str


@dataclass(frozen=True)
class MeasureMemory:
    """Value: {"bytes": of the buffers in use now, "peak_bytes": at most since the last such command}.

    As they were allocated, staging included; what a driver takes for pipelines is not in it.
    """

    kind: ClassVar[str] = "measure-memory"


@dataclass(frozen=True)
class Drop:
    """Forgets buffers, pipelines and programs by name; a trailing * drops every name that begins so."""

    kind: ClassVar[str] = "drop"
    names: tuple[str, ...]


Command: TypeAlias = (
    MakeBuffer | WriteBuffer | FillBuffer | CopyBuffer | ReadBuffer | MakePipeline | MakeProgram | RunProgram
    | Measure | MeasureWaits | MeasurePhases | MeasureCreation | MeasureTransfers | MeasureDeviceTime
    | MeasureMemory | Trace | Drop
)  # fmt: skip
COMMANDS: dict[str, type] = {c.kind: c for c in Command.__args__}


@dataclass(frozen=True)
class Job:
    commands: tuple[Command, ...]


@dataclass
class Result:
    """One value a command (None where it gives none), the blobs that values point at, and what was issued.

    `counts`: dispatches, passes, submits, bind_groups, pipelines, buffers, programs, bytes_written, bytes_read,
    reads, waits, throttles: counted as issued by this job, never estimated;
    what is zero may be absent.
    """

    values: list[dict[str, Any] | None]
    blobs: list[Bytes] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def blob(self, command: int) -> Bytes:
        """The bytes that command number `command` (negative from the end) gave back."""
        value = self.values[command]
        if value is None or "blob" not in value:
            raise KeyError(f"command {command} gave no bytes back")
        blob: Bytes = self.blobs[value["blob"]]
        return blob


@dataclass(frozen=True)
class DeviceInfo:
    """What a runner runs on. Names are WebGPU's own ("shader-f16", "max-buffer-size"), whatever the library's."""

    implementation: str  # wgpu-native, dawn, chrome, firefox, safari
    version: str
    backend: str  # vulkan, metal, d3d12, gl
    adapter: str
    vendor: str
    driver: str
    software: bool
    features: tuple[str, ...]
    limits: Mapping[str, int]
    subgroup_size: tuple[int, int] | None = None
    os: str = ""


@runtime_checkable
class Runner(Protocol):
    """Anything that runs jobs: a native device in this process, a worker process, a browser."""

    @property
    def info(self) -> DeviceInfo: ...

    @property
    def generation(self) -> int:
        """Grows when the device was replaced by a fresh one: every named thing made before is gone."""
        ...

    def run(self, job: Job, deadline: float | None = None) -> Result:
        """Runs the commands in order; the first that fails raises its GpuError. `deadline` in seconds."""
        ...

    def close(self) -> None: ...
