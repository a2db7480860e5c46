"""Which kernel computes a step: one that fits the op, dims, storages and device; a user's own before all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from torch import fx

from pytest_webgpu.compiler.errors import NoKernel
from pytest_webgpu.compiler.graph import OpTarget, carrier, role_of, shape_of
from pytest_webgpu.compiler.plan import Storage, bytes_of
from pytest_webgpu.gpu.job import DeviceInfo
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.ops import contract as contracts
from pytest_webgpu.ops.launch import Launch, Unfit, launch, prefers, signature

SAME_BYTES = {"f16x2": ("f16x2", "f16"), "q4_32": ("q4_32",), "f32": ("f32",), "i32": ("i32", "u32")}
"""What a kernel may call what lies in a buffer: packed halves are an array<f16> where the device has those."""

MATRIX: dict[str, Storage] = {"f32": "f32", "f16": "f16x2", "q4": "q4_32"}
CACHE: dict[str, Storage] = {"f32": "f32", "f16": "f16x2", "q4": "f16x2"}
"""How each dtype of a model stores its matrices of weights, and its keys and values."""

TuneKey = tuple[str, tuple[tuple[str, int], ...], str]


@dataclass(frozen=True)
class Tuned:
    """What an autotuner found best for an op at dims and dtype: a kernel by name, and its overrides."""

    kernel: str
    overrides: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """An op as a plan needs it. `stored`: the storage of every tensor that it takes or gives (f32, f16x2, q4_32, i32).

    `on_device`: scalars that a buffer holds, since they change between runs of one plan.
    """

    op: str
    dims: Mapping[str, int]
    scalars: Mapping[str, int | float]
    stored: Mapping[str, str]
    on_device: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    launch: Launch
    tune: Mapping[str, int]

    @property
    def kernel(self) -> KernelSource:
        return self.launch.kernel


class Chooser:
    """Chooses among the kernels of a library for one device and one dtype of weights and caches (f32, f16, q4)."""

    def __init__(
        self, library: Library, info: DeviceInfo, dtype: str = "f32", tuned: Mapping[TuneKey, Tuned] | None = None
    ) -> None:
        self.library, self.info, self.dtype, self.tuned = library, info, dtype, dict(tuned or {})
        self._known: dict[Any, Choice | NoKernel] = {}

    def choose(self, call: Call) -> Choice:
        """The kernel to run. Raises NoKernel, which says of each kernel of the op why it does not fit."""
        key = tuple(tuple(sorted(m.items())) for m in (call.dims, call.scalars, call.stored))
        known = self._known.get((call.op, key, call.on_device))
        if known is None:
            try:
                known = self._choose(call)
            except NoKernel as error:
                known = error
            self._known[call.op, key, call.on_device] = known
        if isinstance(known, NoKernel):
            raise known
        return known

    @property
    def largest(self) -> int:
        """Bytes of the largest buffer that the device can have and bind as a whole."""
        names = ("max-storage-buffer-binding-size", "max-buffer-size")
        return min(self.info.limits.get(name, 1 << 62) for name in names)

    def bytes(self, node: fx.Node) -> int:
        return bytes_of(storage_of(node, self.dtype), prod(shape_of(node)))

    def fitting(self, call: Call) -> list[KernelSource]:
        """Every kernel that could run the call, with its tunables' first values."""
        found = []
        for kernel in self.library.for_op(call.op):
            try:
                self._fit(call, kernel, {})
            except (Unfit, KernelError, NoKernel):
                continue
            found.append(kernel)
        return found

    def tune_key(self, call: Call) -> TuneKey:
        return call.op, tuple(sorted(call.dims.items())), self.dtype

    def _choose(self, call: Call) -> Choice:
        kernels = self.library.for_op(call.op)
        tuned = self.tuned.get(self.tune_key(call))
        fitting: list[tuple[Any, Choice]] = []
        reasons = []
        for kernel in kernels:
            untuned = kernel.header.software if self.info.software else {}
            overrides = tuned.overrides if tuned is not None and tuned.kernel == kernel.name else untuned
            try:
                found = self._fit(call, kernel, overrides)
            except (Unfit, KernelError, NoKernel) as error:
                if self.library.is_swapped(kernel) and isinstance(error, KernelError):
                    raise  # a user's own kernel is broken: that is for its author to see
                reasons.append(f"{kernel.name}: {error}")
                continue
            fitting.append((self._rank(call, kernel, tuned), Choice(found, overrides)))
        if not fitting:
            why = "\n  ".join(reasons) or "the library has none"
            raise NoKernel(f"no kernel computes {call.op} at {_shown(call)}:\n  {why}")
        return min(fitting, key=lambda f: f[0])[1]

    def _rank(self, call: Call, kernel: KernelSource, tuned: Tuned | None) -> tuple[Any, ...]:
        """Sorts first what is to be taken: swapped in, tuned, meant for these dims, made for the device's features."""
        holds = self._prefers(call, kernel)
        return (
            not self.library.is_swapped(kernel),
            not (tuned is not None and tuned.kernel == kernel.name),
            not holds,
            not (holds and kernel.header.prefer),
            -len(kernel.features),
            kernel.name,
        )

    def _prefers(self, call: Call, kernel: KernelSource) -> bool:
        return prefers(contracts.get(call.op), kernel, call.dims, self._numbers(call))

    def _numbers(self, call: Call) -> dict[str, int | float]:
        return {**call.scalars, **dict.fromkeys(call.on_device, 0)}

    def _fit(self, call: Call, kernel: KernelSource, overrides: Mapping[str, int]) -> Launch:
        """How the kernel would run. Raises Unfit or NoKernel with what stands against it."""
        op = contracts.get(call.op)
        if missing := kernel.features - set(self.info.features):
            raise NoKernel(f"needs the feature {', '.join(sorted(missing))}")
        for name, storage in signature(op, kernel).items():
            wanted = call.stored.get(name)
            if wanted is None:
                raise NoKernel(f"takes {name}, which is not given here")
            if storage not in SAME_BYTES[wanted]:
                raise NoKernel(f"{name} is {storage} where {wanted} is stored")
        bound = {kernel.header.bind.get(b.name, b.name) for b in kernel.bindings}
        if unread := call.stored.keys() - bound:
            raise NoKernel(f"has no {', '.join(sorted(unread))}")
        made = launch(op, kernel, call.dims, self._numbers(call), overrides)
        read = {a.name for a in made.arguments if a.role == "scalar"}
        used = {n for p in kernel.passes for e in p.workgroups for n in e.names}
        used |= {n for s in kernel.header.scratch.values() for e in s.shape for n in e.names}
        used |= {o.name for o in kernel.overrides}
        for name in call.on_device:
            if name not in read or name in used:
                raise NoKernel(f"does not read {name} from a buffer, and only the device knows it")
        self._within_limits(made)
        return made

    def _within_limits(self, made: Launch) -> None:
        limits, kernel = self.info.limits, made.kernel
        for p in made.passes:
            storage = sum(a.role != "uniform" for a in made.bound(p.entry))
            threads = kernel.workgroup_size(p.entry, made.overrides)
            for limit, asked in (
                ("max-storage-buffers-per-shader-stage", storage),
                ("max-compute-invocations-per-workgroup", threads[0] * threads[1] * threads[2]),
                ("max-compute-workgroup-storage-size", kernel.workgroup_memory(made.overrides, p.entry)),
            ):
                if limit in limits and asked > limits[limit]:
                    raise NoKernel(f"needs {limit} of {asked}; the device has {limits[limit]}")

    def refuse(self, node: fx.Node) -> str | None:
        """Why a fusion that makes this node is not to be applied: no kernel fits, or none is meant for its dims, or its
        weight is larger than what can be bound and cannot be cut."""
        call = self.call(node)
        weight = node.kwargs.get("weight")
        if isinstance(weight, fx.Node) and self.bytes(weight) > self.largest and not cuttable(call):
            return f"its weight of {self.bytes(weight)} bytes does not fit a binding of {self.largest}"
        try:
            choice = self.choose(call)
        except NoKernel as error:
            return str(error)
        trusted = self.library.is_swapped(choice.kernel) or self.tune_key(call) in self.tuned
        if not trusted and not self._prefers(call, choice.kernel):
            wanted = ", ".join(e.text for e in choice.kernel.header.prefer)
            return f"{choice.kernel.name} is not meant for {_shown(call)} (it prefers {wanted})"
        return None

    def is_swapped(self, node: fx.Node) -> bool:
        """Whether a kernel that the user swapped in would compute this node."""
        try:
            return self.library.is_swapped(self.choose(self.call(node)).kernel)
        except NoKernel:
            return False

    def call(self, node: fx.Node) -> Call:
        """What an fx node that calls a contract asks for."""
        assert isinstance(node.target, OpTarget)
        contract = contracts.get(node.target.name)
        integers = {a.name for a in contract.args if a.kind == "int"}
        stored: dict[str, str] = {}
        scalars: dict[str, int | float] = {}
        on_device = []
        for name, value in node.kwargs.items():
            if not isinstance(value, fx.Node):
                if name not in node.meta["dims"]:
                    scalars[name] = value
            elif any(s.name == name for s in contract.scalars):
                on_device.append(name)
            else:
                stored[name] = "i32" if name in integers else storage_of(value, self.dtype)
        for output in contract.outputs:
            if not output.inplace:
                stored[output.name] = "i32" if output.kind == "int" else "f32"
        return Call(node.target.name, node.meta["dims"], scalars, stored, tuple(on_device))


def cuttable(call: Call) -> bool:
    """Whether the op can run piece by piece of its weight's rows: an embedding, or a product of one row."""
    if call.op == "embedding":
        return True
    contract = contracts.get(call.op)
    return contract.tensor("weight").dims[0] == "n" and call.dims.get("rows", 0) == 1


def storage_of(node: fx.Node, dtype: str) -> Storage:
    """Of a matrix of weights and of a cache what MATRIX and CACHE say of the dtype; f32 for all else."""
    role = role_of(carrier(node))
    if role is not None and role.kind == "cache":
        return CACHE[dtype]
    is_matrix = role is not None and role.kind == "weight" and len(shape_of(carrier(node))) == 2
    return MATRIX[dtype] if is_matrix else "f32"


def _shown(call: Call) -> str:
    dims = ", ".join(f"{k}={v}" for k, v in call.dims.items())
    return f"{dims} ({', '.join(f'{k}: {v}' for k, v in call.stored.items())})"

