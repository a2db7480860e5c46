"""Where a contract and a kernel meet: what is bound, dispatched and set for given dims and scalars.

A binding meets the tensor of its name; a field of a uniform struct, an `override`, or element 0 of a storage buffer
meets the dim or scalar of its name. What nothing matches is a KernelError that lists what the contract offers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

from pytest_webgpu.gpu.job import Slot
from pytest_webgpu.gpu.limits import DEFAULT_LIMITS
from pytest_webgpu.kernels.constants import NotConstant
from pytest_webgpu.kernels.errors import KernelError, nearest
from pytest_webgpu.kernels.expression import MAX_WORKGROUPS, Expression, ExpressionError
from pytest_webgpu.kernels.kernel import Binding, KernelSource
from pytest_webgpu.kernels.types import SCALAR_SIZES, Unsized, round_up
from pytest_webgpu.ops.signature import PACKED, element, offers, signature, tensors
from pytest_webgpu.ops.uniforms import Packer

if TYPE_CHECKING:
    from pytest_webgpu.ops.contract import Contract

__all__ = ["PACKED", "BoundArgument", "Launch", "PassLaunch", "Unfit", "launch", "prefers", "signature"]

Numbers = Mapping[str, int | float]
MAX_BINDING = DEFAULT_LIMITS["max-storage-buffer-binding-size"]
Role = Literal["tensor", "uniform", "scalar", "scratch"]


class Unfit(Exception):
    """The kernel's `requires` do not hold for these dims. Prints as a KernelError does; nothing is wrong."""


@dataclass(frozen=True)
class BoundArgument:
    """One resource of a launch.

    `name`: the contract's (of a tensor or scalar), the header's (scratch) or the variable's (uniform). `dtype`: the
    precision of an element, f32, f16, i32, u32 (i8, q4 where packed so). `storage`: plain, or how it is packed in
    u32. `shape`: the logical one. `size`: bytes to bind, padded up to the WGSL's vector and to 4. `exact`: the
    kernel asks for arrayLength, so that no more may be bound.
    """

    variable: str
    group: int
    binding: int
    role: Role
    name: str
    output: bool
    access: str
    dtype: str
    storage: str
    shape: tuple[int, ...]
    size: int
    exact: bool


@dataclass(frozen=True)
class PassLaunch:
    """One dispatch. `constants` by WebGPU's key: the override's name, or its @id where it has one."""

    entry: str
    workgroups: tuple[int, int, int]
    constants: Mapping[str, float]


@dataclass(frozen=True)
class Launch:
    """Everything that running a kernel once needs, besides the data of its tensors.

    `uniforms`: bytes of each uniform variable. `scalars`: 4 bytes of each scalar in a storage buffer, by variable.
    `names`: dims, scalars and overrides, the values that expressions see.
    """

    kernel: KernelSource
    arguments: tuple[BoundArgument, ...]
    passes: tuple[PassLaunch, ...]
    uniforms: Mapping[str, bytes]
    scalars: Mapping[str, bytes]
    names: Numbers

    def bound(self, entry: str) -> tuple[BoundArgument, ...]:
        """The arguments that a pass's entry point uses: those that its bind groups hold."""
        used = {b.name for b in self.kernel.bound(entry)}
        return tuple(a for a in self.arguments if a.variable in used)

    def slots(self, entry: str) -> tuple[Slot, ...]:
        """The explicit layout of an entry point's pipeline: one slot for each of `bound(entry)`."""
        kinds: dict[str, Literal["storage", "read-only-storage"]] = {
            "read": "read-only-storage", "read_write": "storage", "write": "storage"}  # fmt: skip
        return tuple(Slot(a.group, a.binding, "uniform" if a.role == "uniform" else kinds[a.access])
                     for a in self.bound(entry))  # fmt: skip

    @property
    def workgroup_memory(self) -> int:
        """Bytes of workgroup memory of the hungriest pass."""
        return max(self.kernel.workgroup_memory(self.overrides, p.entry) for p in self.passes)

    @property
    def overrides(self) -> dict[str, float]:
        """The value of every override by its name, defaults included."""
        return {o.name: float(self.names[o.name]) for o in self.kernel.overrides if o.name in self.names}


def launch(
    op: Contract, kernel: KernelSource, dims: Mapping[str, int], scalars: Numbers,
    tune: Mapping[str, int] | None = None, spare: bool = False,
) -> Launch:  # fmt: skip
    """How `kernel` computes `op` at `dims`. Scalars left out take the contract's defaults.

    `tune`: values for `[tune]` overrides (their first otherwise). `spare`: one workgroup more than needed on each
    axis that depends on the dims, for kernels that are `guarded`. Raises KernelError, or Unfit.
    """
    return _Meeting(op, kernel, dims, scalars, tune or {}).launch(spare)


def prefers(op: Contract, kernel: KernelSource, dims: Mapping[str, int], scalars: Numbers) -> bool:
    """Whether every `prefer` of the header holds (true for a kernel without any)."""
    meeting = _Meeting(op, kernel, dims, scalars, {})
    return all(meeting.holds(e, "prefer") for e in kernel.header.prefer)


class _Meeting:
    def __init__(
        self, op: Contract, kernel: KernelSource, dims: Mapping[str, int], scalars: Numbers, tune: Mapping[str, int]
    ) -> None:
        self.op, self.kernel, self.tuned = op, kernel, tune
        defaults = {s.name: s.default for s in op.scalars if s.default is not None}
        self.numbers: dict[str, int | float] = {**defaults, **scalars, **dims}
        self.shapes = op.shapes(dims, scalars)
        self.names: dict[str, int | float] = dict(self.numbers)
        self.constants = self.override_values()

    def launch(self, spare: bool) -> Launch:
        self.check()
        arguments = tuple(self.argument(b) for b in self.kernel.bindings)
        packer = Packer(self.kernel, self.numbers, self.names, offers(self.op))
        lines = {b.name: b.line for b in self.kernel.bindings}
        uniforms = {b.name: packer.uniform(b) for b in self.kernel.bindings if b.space == "uniform"}
        scalars = {a.variable: packer.number(a.dtype, self.numbers[a.name], a.variable, lines[a.variable])
                   for a in arguments if a.role == "scalar"}  # fmt: skip
        passes = tuple(PassLaunch(p.entry, self.workgroups(p.workgroups, p.line, spare), self.constants)
                       for p in self.kernel.passes)  # fmt: skip
        return Launch(self.kernel, arguments, passes, uniforms, scalars, self.names)

    def check(self) -> None:
        known = {*tensors(self.op), *self.numbers, *self.kernel.header.scratch}
        named = [("bind", v, n) for v, n in self.kernel.header.bind.items()]
        named += [("storage", n, n) for n in self.kernel.header.storage]
        for table, key, name in named:
            if name not in known and not (table == "storage" and any(b.name == name for b in self.kernel.bindings)):
                raise self.kernel.header_error(f"{table}.{key}", f'[{table}] names "{name}"',
                                               nearest(name, known) + offers(self.op))  # fmt: skip
        signature(self.op, self.kernel)
        for e in self.kernel.header.requires:
            if not self.holds(e, "requires"):
                seen = ", ".join(f"{n} = {self.names[n]}" for n in sorted(e.names))
                raise Unfit(str(self.kernel.header_error("requires", f'"{e.text}" does not hold: {seen}',
                                                         "use another kernel of the op there")))  # fmt: skip

    def holds(self, e: Expression, key: str) -> bool:
        return bool(self.value(e, key))

    def value(self, e: Expression, key: str) -> int | float:
        try:
            return e.value(self.names)
        except ExpressionError as problem:
            raise self.kernel.header_error(key, problem.message, problem.remedy) from None

    def extent(self, e: Expression, key: str) -> int:
        """Elements along an axis of a scratch buffer; one where dims are 0, since WebGPU binds no empty buffer."""
        try:
            n = e.evaluate(self.names)
        except ExpressionError as problem:
            raise self.kernel.header_error(key, problem.message, problem.remedy) from None
        if n < 0 or (n == 0 and e.is_constant):
            raise self.kernel.header_error(key, f'"{e.text}" in the shape of {key} is {n}', "write what is at least 1")
        return max(1, n)

    def override_values(self) -> dict[str, float]:
        """Values for the pipeline, by WebGPU's keys; `self.names` learns every override and constant."""
        header, given = self.kernel.header, {}
        for o in self.kernel.overrides:
            if o.name in header.tune:
                given[o.name] = float(self.tuned.get(o.name, header.tune[o.name][0]))
            elif o.name in self.numbers and o.name not in header.set:
                given[o.name] = float(self.numbers[o.name])
        self.names |= {n: int(v) if v == int(v) else v for n, v in given.items()}
        for o in self.kernel.overrides:
            if o.name in header.set:
                given[o.name] = float(self.value(header.set[o.name][0], f"set.{o.name}"))
            elif o.name not in given and o.default is None:
                raise self.kernel.error(
                    o.line, f"override `{o.name}` has no default and {self.op.name} no such number",
                    nearest(o.name, self.numbers) + f"{offers(self.op)}; or give it a default, a list in [tune], "
                    "an expression in [set]")  # fmt: skip
        scope = self.kernel.scope(given)
        for name in (*(o.name for o in self.kernel.overrides), *self.kernel.constants):
            try:
                self.names.setdefault(name, scope.named(name))
            except NotConstant:
                continue
        return {o.key: given[o.name] for o in self.kernel.overrides if o.name in given}

    def argument(self, b: Binding) -> BoundArgument:
        name = self.kernel.header.bind.get(b.name, b.name)
        if b.space == "uniform":
            return self.bind(b, "uniform", b.name, b.type.scalar or "u32", (), round_up(self.size(b), 16))
        tensor = tensors(self.op).get(name)
        if tensor is not None:
            dtype, storage = element(self.kernel, b, tensor)
            shape = self.shapes[name]
            output = any(o.name == name for o in self.op.outputs)
            if output and b.access == "read":
                raise self.kernel.error(b.line, f"`{b.name}` is the output {tensor} but declared read-only",
                                        f"declare var<storage, read_write> {b.name}")  # fmt: skip
            return self.bind(b, "tensor", name, dtype, shape, self.bytes(b, dtype, storage, shape), output, storage)
        if name in self.kernel.header.scratch:
            scratch = self.kernel.header.scratch[name]
            shape = tuple(self.extent(e, f"scratch.{name}") for e in scratch.shape)
            if b.type.scalar != scratch.dtype:
                raise self.kernel.error(b.line, f"`{b.name}` is {b.type.text}, its [scratch] says {scratch.dtype}",
                                        "make the two agree")  # fmt: skip
            size = self.bytes(b, scratch.dtype, "plain", shape)
            if size > MAX_BINDING:
                raise self.kernel.header_error(
                    f"scratch.{name}", f"{name} is {size} bytes, more than the {MAX_BINDING} that WebGPU binds",
                    "make it smaller, or state for which dims it fits: requires = [...]")  # fmt: skip
            return self.bind(b, "scratch", name, scratch.dtype, shape, size)
        if name in self.numbers and b.type.scalar is not None and b.type.components == 1:
            return self.bind(b, "scalar", name, b.type.scalar, (1,), max(4, SCALAR_SIZES[b.type.scalar]))
        known = [*tensors(self.op), *self.numbers, *self.kernel.header.scratch]
        raise self.kernel.error(b.line, f"`{b.name}` is no argument of {self.op.name}",
                                nearest(name, known) + f"{offers(self.op)}; where only the name differs: "
                                f'[bind] {b.name} = "..."')  # fmt: skip

    def bind(
        self, b: Binding, role: Role, name: str, dtype: str, shape: tuple[int, ...], size: int,
        output: bool = False, storage: str = "plain",
    ) -> BoundArgument:  # fmt: skip
        return BoundArgument(b.name, b.group, b.index, role, name, output, b.access, dtype, storage, shape, size,
                             b.uses_array_length)  # fmt: skip

    def bytes(self, b: Binding, dtype: str, storage: str, shape: tuple[int, ...]) -> int:
        count = prod(shape)
        if storage == "plain":
            size = count * SCALAR_SIZES[dtype]
        else:
            _, elements, width = PACKED[storage]
            size = -(-count // elements) * width
        step = self.kernel.layout().stride(b.type)
        if b.type.is_array and b.type.count is not None and size > self.size(b):
            raise self.kernel.error(
                b.line, f"`{b.name}` holds {b.type.count} elements, too few for {'x'.join(map(str, shape))} of them",
                f"declare it as array<{b.type.text.removeprefix('array<').rpartition(',')[0]}>, or say in `requires` "
                "for which dims it is enough")  # fmt: skip
        return max(round_up(round_up(size, step), 4), self.size(b), 4)

    def size(self, b: Binding) -> int:
        """The least that WebGPU lets bind: the size of the WGSL type, 0 where it is sized at run time."""
        try:
            return self.kernel.layout().size(b.type)
        except (Unsized, NotConstant) as problem:
            raise self.kernel.error(
                b.line, f"`{b.name}` cannot be bound: no size for {problem}",
                "use f32, f16, i32, u32, their vectors, and arrays and structs of these") from None  # fmt: skip

    def workgroups(self, expressions: tuple[Expression, ...], line: int, spare: bool) -> tuple[int, int, int]:
        counts: list[int] = []
        for e in expressions:
            try:
                n = e.evaluate(self.names)
            except ExpressionError as problem:
                raise KernelError(self.kernel.header.path, line, problem.message, problem.remedy) from None
            if n < 0:
                raise KernelError(self.kernel.header.path, line, f'"{e.text}" is {n}', "count workgroups from 0")
            extra = spare and not e.is_constant
            if e.folds:
                n += extra
                counts += [min(n, MAX_WORKGROUPS), -(-n // MAX_WORKGROUPS)]
            elif n > MAX_WORKGROUPS:
                remedy = f'state the limit: requires = ["{e.text} <= {MAX_WORKGROUPS}"]'
                if e is expressions[0] and len(expressions) < 3:  # fold2d takes two dimensions, the first ones
                    remedy = f'write "fold2d({e.text})" and index by id.x + id.y * {MAX_WORKGROUPS}u, or {remedy}'
                told = f'"{e.text}" is {n} workgroups, more than WebGPU\'s {MAX_WORKGROUPS} a dimension'
                raise KernelError(self.kernel.header.path, line, told, remedy)
            else:
                counts.append(min(n + extra, MAX_WORKGROUPS))
        x, y, z = (*counts, 1, 1)[:3]
        return x, y, z
