"""Pipelines and programs of a native device, made ahead so that running one is a flat loop."""

from __future__ import annotations

import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from pytest_webgpu.gpu.buffers import Buffer
from pytest_webgpu.gpu.calls import Calls
from pytest_webgpu.gpu.checks import bound_size, check_dispatch, check_slots
from pytest_webgpu.gpu.job import Dispatch, MakePipeline, MakeProgram, Slot, ValidationError
from pytest_webgpu.gpu.shader import compile_error, prepare, translate, warnings

SPLIT_DOWN_TO = 8  # pipelines of which one cannot be made: so many are left to be made one by one
KEPT = 512  # shader modules and pipelines kept for being asked for again
# (pipeline, or None where the pass has it set already; arguments of each set_bind_group; workgroups x, y, z)
Step: TypeAlias = tuple[Any, tuple[tuple[Any, ...], ...], int, int, int]


@dataclass(frozen=True, eq=False)
class Pipeline:
    native: Any
    slots: tuple[Slot, ...]
    layouts: tuple[Any, ...]  # by group
    remake: Callable[[str], Any]  # compiles it again, with that text after its source
    warnings: tuple[str, ...]  # "line 3: code is unreachable"


@dataclass(frozen=True, eq=False)
class _Wanted:
    """A pipeline with everything at hand to compile it."""

    key: Any
    slots: tuple[Slot, ...]
    layouts: tuple[Any, ...]
    module: Any
    create: Callable[..., Any]  # with a text, that text is compiled after the source


@dataclass(frozen=True, eq=False)
class Program:
    """`steps` sets everything for each dispatch; `lean` leaves out what the pass has set already."""

    steps: tuple[Step, ...]
    lean: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    pipelines: tuple[Pipeline, ...]  # by step
    fresh_groups: tuple[Callable[[], tuple[tuple[Any, ...], ...]], ...]  # makes a step's bind groups anew
    groups: tuple[Any, ...]  # the objects whose handles the steps hold


class Maker:
    """Makes pipelines and programs, sharing modules, layouts and pipelines. Counts what it issues in `counts`."""

    def __init__(
        self, module: Any, device: Any, calls: Calls, implementation: str,
        features: Sequence[str], limits: Mapping[str, int], counts: dict[str, int],
    ):  # fmt: skip
        self._device, self._calls, self._implementation = device, calls, implementation
        self._features, self._limits, self._counts = features, limits, counts
        self._compute = module.ShaderStage.COMPUTE
        self._modules: OrderedDict[str, Any] = OrderedDict()
        self._pipelines: OrderedDict[Any, Pipeline] = OrderedDict()
        self._layouts: dict[tuple[Slot, ...], tuple[Any, tuple[Any, ...]]] = {}

    def pipeline(self, command: MakePipeline) -> Pipeline:
        wanted = self._wanted(command)
        if wanted.key not in self._pipelines:
            try:
                self._made(wanted, wanted.create())
            except Exception as error:
                translated = translate(error)
                translated.details.setdefault("code", command.code)
                raise translated from error
        self._pipelines.move_to_end(wanted.key)
        return self._pipelines[wanted.key]

    def compile_ahead(self, commands: Sequence[MakePipeline]) -> None:
        """Compiles the pipelines side by side, so that `pipeline` finds them: a start is little else.

        Those that fail are left to `pipeline`. The library does not say whose error it was, so that of pipelines
        compiled together with one that fails none is kept: they are compiled again in halves. Dawn is not made for
        several threads.
        """
        if self._implementation != "wgpu-native" or len(commands) < 2:
            return
        wanted: dict[Any, _Wanted] = {}
        for command in commands:
            with contextlib.suppress(Exception):
                one = self._wanted(command)
                wanted[one.key] = one
        with ThreadPoolExecutor() as threads:
            self._side_by_side([w for key, w in wanted.items() if key not in self._pipelines], threads)

    def _side_by_side(self, wanted: Sequence[_Wanted], threads: ThreadPoolExecutor) -> None:
        futures = [threads.submit(one.create) for one in wanted]
        failed = [future.exception() is not None for future in futures]
        if not any(failed):
            for one, future in zip(wanted, futures, strict=True):
                self._made(one, future.result())
        elif len(wanted) > SPLIT_DOWN_TO:
            self._side_by_side(wanted[: len(wanted) // 2], threads)
            self._side_by_side(wanted[len(wanted) // 2 :], threads)

    def _wanted(self, command: MakePipeline) -> _Wanted:
        check_slots(command.slots, command.workgroup_bytes, self._limits, f"Pipeline {command.name!r}")
        source = prepare(command.code, command.enable, self._implementation, self._features)
        module = self._modules.get(source.text)
        if module is None:
            try:
                module = self._device.create_shader_module(code=source.text)
            except Exception as error:
                if type(error).__name__ != "GPUValidationError":
                    raise
                raise compile_error(str(error), source) from error
            _keep(self._modules, source.text, module)
        layout, groups = self._layout(command.slots)
        stage = {"entry_point": command.entry, "constants": dict(command.constants)}
        key = (source.text, command.entry, command.slots, tuple(sorted(command.constants.items())))

        def create(text: str = "") -> Any:
            compiled = self._device.create_shader_module(code=source.text + text) if text else module
            return self._device.create_compute_pipeline(layout=layout, compute={"module": compiled, **stage})

        return _Wanted(key, command.slots, groups, module, create)

    def _made(self, wanted: _Wanted, native: Any) -> None:
        self._counts["pipelines"] += 1
        made = Pipeline(native, wanted.slots, wanted.layouts, wanted.create, warnings(wanted.module))
        _keep(self._pipelines, wanted.key, made)

    def _layout(self, slots: tuple[Slot, ...]) -> tuple[Any, tuple[Any, ...]]:
        if slots not in self._layouts:
            groups = []
            for group in range(max((s.group + 1 for s in slots), default=0)):
                entries = [
                    {"binding": s.binding, "visibility": self._compute, "buffer": {"type": s.type}}
                    for s in slots
                    if s.group == group
                ]
                groups.append(self._device.create_bind_group_layout(entries=entries))
            layout = self._device.create_pipeline_layout(bind_group_layouts=groups)
            self._layouts[slots] = layout, tuple(groups)
        return self._layouts[slots]

    def program(
        self, command: MakeProgram, pipelines: Mapping[str, Pipeline], buffers: Mapping[str, Buffer]
    ) -> Program:
        """Checks every dispatch, makes its bind groups, and encodes the whole once without submitting it.

        The encoding finds what the library alone knows, such as a binding smaller than the shader's type.
        """
        handle = self._calls.handle
        steps: list[Step] = []
        used: list[Pipeline] = []
        fresh: list[Callable[[], tuple[tuple[Any, ...], ...]]] = []
        shared: dict[Any, Any] = {}
        for i, d in enumerate(command.dispatches):
            where = f"Program {command.name!r}, dispatch {i}" + (f" ({d.label})" if d.label else "")
            if d.pipeline not in pipelines:
                raise ValidationError(f"{where}: there is no pipeline {d.pipeline!r}")
            pipeline = pipelines[d.pipeline]
            check_dispatch(d, pipeline.slots, buffers, self._limits, where)
            groups = []
            for index, (layout, entries) in enumerate(self._entries(d, pipeline, buffers)):
                key = (layout, tuple((b, id(r["buffer"]), r["offset"], r["size"]) for b, r in entries))
                if key not in shared:
                    shared[key] = self._group(layout, entries)
                groups.append(self._calls.bind_arguments(index, shared[key]))
            used.append(pipeline)
            steps.append((handle(pipeline.native), tuple(groups), *d.workgroups))
            fresh.append(self._fresh(d, pipeline, buffers))
        bound = {id(buffers[b.buffer]): buffers[b.buffer] for d in command.dispatches for b in d.bound}
        made = Program(
            tuple(steps), tuple(_lean(steps)), tuple(bound.values()), tuple(used), tuple(fresh), tuple(shared.values())
        )
        encoder = self._calls.encoder()
        encode_pass(self._calls, encoder, made.steps)
        self._calls.finish(encoder)
        for buffer in made.buffers:
            buffer.holders += 1
        self._counts["programs"] += 1
        return made

    def _entries(self, d: Dispatch, pipeline: Pipeline, buffers: Mapping[str, Buffer]) -> list[tuple[Any, list[Any]]]:
        """(layout, [(binding, resource)]) of each group."""
        groups: dict[int, list[Any]] = defaultdict(list)
        for b in sorted(d.bound, key=lambda b: b.binding):
            buffer = buffers[b.buffer]
            resource = {"buffer": buffer.native, "offset": b.offset, "size": bound_size(b, buffer)}
            groups[b.group].append((b.binding, resource))
        return [(layout, groups[index]) for index, layout in enumerate(pipeline.layouts)]

    def _group(self, layout: Any, entries: list[Any]) -> Any:
        self._counts["bind_groups"] += 1
        entries = [{"binding": binding, "resource": resource} for binding, resource in entries]
        return self._device.create_bind_group(layout=layout, entries=entries)

    def _fresh(
        self, d: Dispatch, pipeline: Pipeline, buffers: Mapping[str, Buffer]
    ) -> Callable[[], tuple[tuple[Any, ...], ...]]:
        entries = self._entries(d, pipeline, buffers)
        arguments = self._calls.bind_arguments
        last: list[Any] = []

        def make() -> tuple[tuple[Any, ...], ...]:
            last[:] = [self._group(layout, e) for layout, e in entries]  # kept alive until the pass holds them
            return tuple(arguments(index, group) for index, group in enumerate(last))

        return make


def encode_pass(calls: Calls, encoder: Any, steps: Iterable[Step]) -> None:
    """One compute pass with all of the steps."""
    compute_pass = calls.begin_pass(encoder)
    encode_steps(calls, compute_pass, steps)
    calls.end_pass(compute_pass)


def encode_steps(calls: Calls, compute_pass: Any, steps: Iterable[Step]) -> None:
    """The loop whose time a dispatch's cost is made of."""
    set_pipeline, set_bind_group, dispatch = calls.set_pipeline, calls.set_bind_group, calls.dispatch
    for pipeline, groups, x, y, z in steps:
        if pipeline is not None:
            set_pipeline(compute_pass, pipeline)
        for arguments in groups:
            set_bind_group(compute_pass, *arguments)
        dispatch(compute_pass, x, y, z)


def _lean(steps: Sequence[Step]) -> list[Step]:
    lean: list[Step] = []
    pipeline: Any = None
    bound: dict[int, tuple[Any, ...]] = {}
    for step in steps:
        changed = tuple(g for g in step[1] if bound.get(g[0]) != g)
        lean.append((None if step[0] == pipeline else step[0], changed, *step[2:]))
        pipeline = step[0]
        bound.update({g[0]: g for g in step[1]})
    return lean


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    if len(cache) > KEPT:
        cache.popitem(last=False)
