"""What a dispatch may not do, found before it is issued: an error inside a submit ends the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Protocol

from pytest_webgpu.gpu.job import Bound, Dispatch, LimitError, Slot, ValidationError


class Sized(Protocol):
    """A buffer as the checks see it: its size in bytes and the use that it was made for."""

    @property
    def size(self) -> int: ...

    @property
    def usage(self) -> str: ...


def whole_size(size: int, limits: Mapping[str, int]) -> int:
    """The bytes of a buffer that is asked for with `size`: whole words, at least one. LimitError beyond the limit."""
    size = max(4, -(-size // 4) * 4)
    _within(size, "max-buffer-size", limits, f"A buffer of {size} bytes")
    return size


def check_slots(slots: Sequence[Slot], workgroup_bytes: int, limits: Mapping[str, int], where: str) -> None:
    """Limits of a pipeline's layout and of its workgroup memory (Dawn counts that in steps of 16 bytes)."""
    if len({(s.group, s.binding) for s in slots}) != len(slots):
        raise ValidationError(f"{where}: two slots share one (group, binding)")
    storage = sum(s.type != "uniform" for s in slots)
    groups = max((s.group + 1 for s in slots), default=0)
    _within(storage, "max-storage-buffers-per-shader-stage", limits, f"{where} has {storage} storage buffers")
    uniforms = len(slots) - storage
    _within(uniforms, "max-uniform-buffers-per-shader-stage", limits, f"{where} has {uniforms} uniform buffers")
    _within(groups, "max-bind-groups", limits, f"{where} has {groups} bind groups")
    memory = -(-workgroup_bytes // 16) * 16
    name = "max-compute-workgroup-storage-size"
    _within(memory, name, limits, f"{where} uses {memory} bytes of workgroup memory")


def check_dispatch(
    dispatch: Dispatch, slots: Sequence[Slot], buffers: Mapping[str, Sized], limits: Mapping[str, int], where: str
) -> None:
    """Workgroups, bindings against the pipeline's slots, sizes, alignment, and aliasing."""
    for axis, n in zip("xyz", dispatch.workgroups, strict=True):
        if n < 0:
            raise ValidationError(f"{where}: {n} workgroups along {axis}")
        _within(n, "max-compute-workgroups-per-dimension", limits, f"{where} asks for {n} workgroups along {axis}")
    types = {(s.group, s.binding): s.type for s in slots}
    bound = {(b.group, b.binding): b for b in dispatch.bound}
    if len(bound) != len(dispatch.bound):
        raise ValidationError(f"{where}: one (group, binding) is bound twice")
    if types.keys() != bound.keys():
        missing, extra = sorted(types.keys() - bound.keys()), sorted(bound.keys() - types.keys())
        raise ValidationError(
            f"{where}: (group, binding) not bound: {missing or 'none'}; bound and not a slot: {extra or 'none'}"
        )
    for place, b in bound.items():
        check_bound(b, types[place], buffers, limits, where)
    for (one, a), (other, b) in combinations(bound.items(), 2):
        if a.buffer == b.buffer:
            _check_alias(a, types[one], b, types[other], buffers[a.buffer], where)


def check_bound(b: Bound, type_: str, buffers: Mapping[str, Sized], limits: Mapping[str, int], where: str) -> None:
    where = f"{where}, group {b.group} binding {b.binding}"
    if b.buffer not in buffers:
        raise ValidationError(f"{where}: there is no buffer {b.buffer!r}")
    buffer = buffers[b.buffer]
    size = bound_size(b, buffer)
    kind = "uniform" if type_ == "uniform" else "storage"
    if (buffer.usage == "uniform") != (kind == "uniform"):
        raise ValidationError(f"{where}: buffer {b.buffer!r} was made as {buffer.usage}, and the slot is {type_}")
    alignment = limits[f"min-{kind}-buffer-offset-alignment"]
    if b.offset % alignment:
        raise LimitError(
            f"{where}: offset {b.offset} of {b.buffer!r} is no multiple of {alignment}",
            limit=f"min-{kind}-buffer-offset-alignment", asked=b.offset, allowed=alignment,
        )  # fmt: skip
    if b.offset < 0 or size <= 0 or b.offset + size > buffer.size:
        raise ValidationError(
            f"{where}: {size} bytes from {b.offset} do not fit in buffer {b.buffer!r} of {buffer.size} bytes"
        )
    if size % 4:
        raise ValidationError(f"{where}: size {size} is no multiple of 4")
    name = f"max-{kind}-buffer-binding-size"
    _within(size, name, limits, f"{where} binds {size} bytes of {b.buffer!r}")


def bound_size(b: Bound, buffer: Sized) -> int:
    """Bytes that are bound: to the end of the buffer where the size is None."""
    return buffer.size - b.offset if b.size is None else b.size


def _check_alias(a: Bound, a_type: str, b: Bound, b_type: str, buffer: Sized, where: str) -> None:
    """One buffer both read and written in a dispatch is refused everywhere, overlapping writes by Dawn."""
    names = f"({a.group}, {a.binding}) and ({b.group}, {b.binding})"
    if (a_type == "storage") != (b_type == "storage"):
        raise ValidationError(
            f"{where}: buffer {a.buffer!r} is bound as read and as read_write, at {names}: use two buffers"
        )
    overlap = a.offset < b.offset + bound_size(b, buffer) and b.offset < a.offset + bound_size(a, buffer)
    if a_type == "storage" and overlap:
        raise ValidationError(f"{where}: buffer {a.buffer!r} is bound read_write twice, overlapping, at {names}")


def _within(asked: int, name: str, limits: Mapping[str, int], what: str) -> None:
    allowed = limits.get(name)
    if allowed is not None and asked > allowed:
        raise LimitError(f"{what}; the limit {name} is {allowed}", limit=name, asked=asked, allowed=allowed)
