"""From a graph of contracts to a plan: kernels chosen, buffers recycled, weights cut to what can be bound."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias

from torch import fx

from pytest_webgpu.compiler.choose import Call, Chooser, cuttable, storage_of
from pytest_webgpu.compiler.errors import CompilerError, NoKernel, TooLarge, where
from pytest_webgpu.compiler.graph import carrier, is_op, part, role_of, shape_of
from pytest_webgpu.compiler.lower import ALIGN, Lowered
from pytest_webgpu.compiler.memory import Arena, Pool
from pytest_webgpu.compiler.plan import Binding, Buffer, Kernel, Pass, Plan, Ref, Rows, Step, Storage, bytes_of
from pytest_webgpu.compiler.quantise import BLOCK, NotQuantisable
from pytest_webgpu.ops import contract as contracts
from pytest_webgpu.ops.launch import Launch, PassLaunch

PIECEWISE = "embedding_piece"  # embedding of the ids that lie in one piece of the table
Refs: TypeAlias = dict[str, Ref]


def schedule(lowered: Lowered, chooser: Chooser, fusions: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> Plan:
    """The plan of a lowered step. Raises NoKernel (with the model's line) or TooLarge."""
    return _Scheduler(lowered, chooser).plan(fusions, notes)


@dataclass(frozen=True)
class _Place:
    """Where in the model a step stands."""

    line: str
    layer: int | None
    section: str

    def __str__(self) -> str:
        return f"layer {self.layer}, {self.line}" if self.layer is not None else self.line


class _Scheduler:
    def __init__(self, lowered: Lowered, chooser: Chooser) -> None:
        self.lowered, self.chooser = lowered, chooser
        self.largest = chooser.largest
        prefix = f"step{lowered.tokens}."
        self.activations, self.scratch = Pool(prefix + "activation"), Pool(prefix + "scratch")
        self.uniforms, self.numbers = Arena(prefix + "uniforms", "uniform"), Arena(prefix + "numbers", "number")
        self.buffers: dict[str, Buffer] = {}
        self.pieces: dict[str, list[Buffer]] = {}
        self.refs: dict[tuple[fx.Node, int], Ref] = {}
        self.steps: list[Step] = []
        self.kernels: dict[str, Kernel] = {}
        self.constants: dict[str, Any] = {}
        self.last_use = self._last_uses()
        self.section = "body"

    def plan(self, fusions: tuple[str, ...], notes: tuple[str, ...]) -> Plan:
        for node in self.lowered.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif is_op(node):
                self._op(node)
        results = tuple(self._ref(node) for node in self.lowered.results)
        arenas = {a.name: a.buffer() for a in (self.uniforms, self.numbers) if a.data}
        buffers = self.buffers | self.activations.buffers("activation") | self.scratch.buffers("scratch") | arenas
        return Plan(
            self.lowered.tokens, self.lowered.capacity, self.chooser.dtype, fusions, buffers, tuple(self.steps),
            self.kernels, results, notes, self.constants,
        )  # fmt: skip

    def _last_uses(self) -> dict[fx.Node, fx.Node]:
        """The last op that reads each op's own memory; for what the graph gives out, none."""
        last: dict[fx.Node, fx.Node] = {}
        for node in self.lowered.graph.nodes:
            if is_op(node):
                for argument in node.all_input_nodes:
                    last[carrier(argument)] = node
        for node in self.lowered.results:
            last.pop(carrier(node), None)
        return last

    def _placeholder(self, node: fx.Node) -> None:
        role, shape = role_of(node), shape_of(node)
        if role is None:
            raise CompilerError(f"placeholder {node.name} has no role")
        ints = not node.meta["val"].dtype.is_floating_point
        storage: Storage = "i32" if ints else "f32" if role.kind == "input" else storage_of(node, self.chooser.dtype)
        if storage == "q4_32" and shape[1] % BLOCK:
            raise NotQuantisable(
                f"{role.name}: rows of {shape[1]} weights are no whole number of blocks of {BLOCK}: take f16 or f32"
            )
        name = f"step{self.lowered.tokens}.{role.name}" if role.kind == "input" else role.name
        size = _padded(bytes_of(storage, prod(shape)))
        parts = role.parts or ((role.name, shape[0]),)
        rows = tuple(Rows(n, 0, height) for n, height in parts) if role.kind == "weight" else ()
        buffer = Buffer(name, role.kind, storage, shape, size, rows)
        if size <= self.largest:
            self.buffers[name] = buffer
        elif role.kind == "weight" and len(shape) == 2:
            self.pieces[name] = list(cut_rows(buffer, self.largest))
            self.buffers |= {b.name: b for b in self.pieces[name]}
        else:
            raise TooLarge(f"{name} takes {size} bytes and the device binds {self.largest}: take a smaller capacity")
        if role.value is not None:
            self.constants[name] = role.value.numpy()
        self.refs[node, 0] = Ref(name, 0, shape)

    def _ref(self, node: fx.Node) -> Ref:
        """Where a value lies."""
        if (node, 0) in self.refs:
            return self.refs[node, 0]
        if node.target is operator.getitem:
            return self.refs[node.args[0], node.args[1]]
        below = self._ref(node.args[0])
        return Ref(below.buffer, below.offset + (node.args[1] if node.target is part else 0), shape_of(node))

    def _op(self, node: fx.Node) -> None:
        call = self.chooser.call(node)
        contract = contracts.get(call.op)
        given = {k: self._ref(v) for k, v in node.kwargs.items() if isinstance(v, fx.Node)}
        on_device = {k: given.pop(k) for k in call.on_device}
        shapes = contract.shapes(call.dims, call.scalars)
        outputs = {o.name: given[o.name] if o.inplace else self._new(shapes[o.name]) for o in contract.outputs}
        self.refs |= {(node, i): ref for i, ref in enumerate(outputs.values())}
        if "last" in (given.get("ids") or Ref("", 0, ())).buffer:
            self.section = "head"
        place = _Place(where(node), node.meta.get("layer"), self.section)
        for part_call, arguments, results in self._in_pieces(call, given, outputs):
            self._step(place, part_call, arguments, results, on_device)
        for memory in {carrier(a) for a in node.all_input_nodes}:
            if self.last_use.get(memory) is node and memory.op == "call_function":
                self.activations.give(self._ref(memory).buffer)

    def _new(self, shape: tuple[int, ...]) -> Ref:
        return Ref(self.activations.take(_padded(4 * prod(shape))), 0, shape)

    def _in_pieces(self, call: Call, given: Refs, outputs: Refs) -> Iterator[tuple[Call, Refs, Refs]]:
        """The op once, or once for each piece of the weight that is cut."""
        pieces = self.pieces.get(given["weight"].buffer) if "weight" in given else None
        if pieces is None:
            yield call, given, outputs
            return
        if not cuttable(call):
            raise TooLarge(
                f"{call.op} of {call.dims}: its weight does not fit one binding of {self.largest} bytes, and only a "
                "product of one row can be cut: ask for the adapter's own limits"
            )
        first = 0
        for piece in pieces:
            rows = piece.shape[0]
            weight = Ref(piece.name, 0, piece.shape)
            if call.op == "embedding":
                dims, stored = {**call.dims, "vocab": rows}, {**call.stored}
                gather = Call(PIECEWISE, dims, {"first": first}, stored)
                yield gather, {**given, "weight": weight, "out": outputs["out"]}, outputs
            else:
                cut = {**given, "weight": weight}
                yield (
                    replace(call, dims={**call.dims, "n": rows}),
                    {k: self._columns(call, k, r, first, rows) for k, r in cut.items()},
                    {k: self._columns(call, k, r, first, rows) for k, r in outputs.items()},
                )
            first += rows

    def _columns(self, call: Call, name: str, ref: Ref, first: int, rows: int) -> Ref:
        """The part of a tensor that belongs to `rows` rows of the weight from `first` on."""
        dims = contracts.get(call.op).tensor(name).dims
        if "n" not in dims or name == "weight":
            return ref
        axis = dims.index("n")
        shape = (*ref.shape[:axis], rows, *ref.shape[axis + 1 :])
        return Ref(ref.buffer, ref.offset + first * prod(ref.shape[axis + 1 :]), shape)

    def _step(self, place: _Place, call: Call, given: Refs, outputs: Refs, on_device: Refs) -> None:
        try:
            choice = self.chooser.choose(call)
        except NoKernel as error:
            raise NoKernel(f"{error}\nneeded by {place}") from None
        launch, kernel = choice.launch, choice.kernel
        scratch: dict[str, Ref] = {}
        for a in launch.arguments:
            if a.role == "scratch" and a.name not in scratch:
                scratch[a.name] = Ref(self.scratch.take(_padded(a.size)), 0, a.shape)
        tensors = {**given, **outputs}
        passes = tuple(self._pass(p, launch, tensors, on_device, scratch) for p in launch.passes)
        for ref in scratch.values():
            self.scratch.give(ref.buffer)
        self.kernels.setdefault(kernel.sha, Kernel(kernel.name, kernel.code, tuple(sorted(kernel.features))))
        self.steps.append(
            Step(
                call.op, place.section, str(place), dict(call.dims), dict(call.scalars), on_device, given, outputs,
                kernel.name, kernel.sha, dict(choice.tune), passes,
            )
        )  # fmt: skip

    def _pass(self, p: PassLaunch, launch: Launch, tensors: Refs, on_device: Refs, scratch: Refs) -> Pass:
        bound = []
        writes: list[Binding] = []
        for a in launch.bound(p.entry):
            if a.role == "uniform":
                data = launch.uniforms[a.variable]
                binding = Binding(a.group, a.binding, self.uniforms.name, self.uniforms.put(data), a.size)
            elif a.role == "scalar" and a.name not in on_device:
                offset = self.numbers.put(launch.scalars[a.variable])
                binding = Binding(a.group, a.binding, self.numbers.name, offset, a.size)
            else:
                ref = {**tensors, **on_device, **scratch}[a.name]
                storage = "f32" if a.role == "scratch" else self._storage(ref.buffer)
                offset = bytes_of(storage, ref.offset)
                if offset % (4 * ALIGN):
                    raise CompilerError(f"{launch.kernel.name} would bind {a.name} at byte {offset}")
                binding = Binding(a.group, a.binding, ref.buffer, offset, a.size)
            bound.append(binding)
            if a.access != "read":
                writes.append(binding)
        _check_aliasing(launch.kernel.name, bound, writes)
        memory = launch.kernel.workgroup_memory(launch.overrides, p.entry)
        return Pass(p.entry, p.workgroups, dict(p.constants), launch.slots(p.entry), tuple(bound), memory)

    def _storage(self, name: str) -> str:
        return self.buffers[name].storage if name in self.buffers else "f32"


def _check_aliasing(kernel: str, bound: list[Binding], writes: list[Binding]) -> None:
    """WebGPU allows no buffer to be read and written in one dispatch, and no overlap of two writes."""
    for w in writes:
        for other in bound:
            if other is w or other.buffer != w.buffer:
                continue
            apart = other.offset + other.size <= w.offset or w.offset + w.size <= other.offset
            if other not in writes or not apart:
                raise CompilerError(f"{kernel} would write {w.buffer} and use it elsewhere in the same dispatch")


def cut_rows(buffer: Buffer, largest: int) -> Iterator[Buffer]:
    """A matrix of weights in pieces of rows, each at most `largest` bytes, at rows that results can be bound at."""
    height, width = buffer.shape
    most = largest // bytes_of(buffer.storage, width) // ALIGN * ALIGN
    if most == 0:
        raise TooLarge(f"{buffer.name}: {ALIGN} rows of {width} do not fit a binding of {largest} bytes")
    count = -(-height // most)
    step = -(-height // count // ALIGN) * ALIGN
    for first in range(0, height, step):
        rows = min(step, height - first)
        size = _padded(bytes_of(buffer.storage, rows * width))
        taken = tuple(_overlap(buffer.rows, first, first + rows))
        yield replace(buffer, name=f"{buffer.name}[{first}:{first + rows}]", shape=(rows, width), size=size, rows=taken)


def _overlap(parts: tuple[Rows, ...], first: int, stop: int) -> Iterator[Rows]:
    """What of the parts, laid one below the other, lies in rows first to stop."""
    top = 0
    for p in parts:
        low, high = max(first, top), min(stop, top + p.count)
        if low < high:
            yield Rows(p.tensor, p.first + low - top, high - low)
        top += p.count


def _padded(size: int) -> int:
    """Bytes up to a multiple of 16, the widest element that a kernel binds."""
    return max(16, -(-size // 16) * 16)
