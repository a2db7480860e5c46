"""WGSL's types in memory: what a binding holds and where its parts lie (WGSL, section "Alignment and Size")."""

from __future__ import annotations

import re
import struct as packing
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_webgpu.kernels.declarations import Tree, text_of

SCALAR_SIZES = {"f32": 4, "f16": 2, "i32": 4, "u32": 4, "bool": 4}
_SHORT = re.compile(r"(vec|mat)([234])(?:x([234]))?([fhiu])$")
_LETTER = {"f": "f32", "h": "f16", "i": "i32", "u": "u32"}


@dataclass(frozen=True)
class WgslType:
    """A type with its aliases resolved.

    `scalar` and `components` describe the innermost element (`array<vec4<f16>>`: f16, 4); `columns` > 1 is a matrix.
    `count` is the text of an array's length, None for a runtime-sized one; `element` what an array repeats.
    `struct` names the innermost element when it is a struct.
    """

    text: str
    scalar: str | None = None
    components: int = 1
    columns: int = 1
    is_array: bool = False
    count: str | None = None
    atomic: bool = False
    struct: str | None = None
    element: WgslType | None = None


@dataclass(frozen=True)
class Field:
    """A member of a struct; `offset` and `size` in bytes (size 0: a runtime-sized array)."""

    name: str
    type: WgslType
    offset: int
    size: int


@dataclass(frozen=True)
class Struct:
    """`size` in bytes, a multiple of `align`; 0 when the struct holds something that memory cannot be shared for."""

    name: str
    fields: tuple[Field, ...]
    size: int
    align: int = 4


class Unsized(ValueError):
    """A type whose size is not known (a texture, an array sized by a value not given)."""


def read_type(tree: Tree, aliases: Mapping[str, Tree], structs: Mapping[str, object]) -> WgslType:
    """The type that an expression tree names. One that is not known here keeps its text and nothing else."""
    text = text_of(tree)
    if tree.data != "call":
        return WgslType(text)
    name, template, arguments = str(tree.children[0]), tree.children[1], tree.children[2]
    if arguments is not None:
        return WgslType(text)
    inner = [c for c in template.children[1:-1] if c is not None] if template is not None else []
    if name in aliases and not inner:
        return read_type(aliases[name], {k: v for k, v in aliases.items() if k != name}, structs)
    if name in structs:
        return WgslType(name, struct=name)
    if name in SCALAR_SIZES:
        return WgslType(name, scalar=name)
    if short := _SHORT.match(name):
        kind, first, second, letter = short.groups()
        return _vector(text, kind, int(first), int(second or 0), _LETTER[letter])
    if (named := re.match(r"(vec|mat)([234])(?:x([234]))?$", name)) and inner:
        scalar = read_type(inner[0], aliases, structs).scalar
        return _vector(f"{name}<{scalar}>", named[1], int(named[2]), int(named[3] or 0), scalar)
    if name == "atomic" and inner:
        scalar = read_type(inner[0], aliases, structs).scalar
        return WgslType(f"atomic<{scalar}>", scalar=scalar, atomic=True)
    if name == "array" and inner:
        element = read_type(inner[0], aliases, structs)
        count = text_of(inner[1]) if len(inner) > 1 else None
        return WgslType(f"array<{element.text}{', ' + count if count else ''}>", element.scalar, element.components,
                        element.columns, True, count, element.atomic, element.struct, element)  # fmt: skip
    return WgslType(text)


def _vector(text: str, kind: str, first: int, second: int, scalar: str | None) -> WgslType:
    if kind == "mat":
        return WgslType(text, scalar=scalar, components=second, columns=first)
    return WgslType(text, scalar=scalar, components=first)


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


class Layout:
    """Alignment and size of types, in bytes. `count_of` gives the value of an array length's text."""

    def __init__(self, structs: Mapping[str, Struct], count_of: Callable[[str], int]) -> None:
        self.structs, self.count_of = structs, count_of

    def align(self, type: WgslType) -> int:
        if type.is_array and type.element is not None:
            return self.align(type.element)
        if type.struct is not None:
            return self._struct(type.struct).align
        if type.scalar is None:
            raise Unsized(type.text)
        return SCALAR_SIZES[type.scalar] * {1: 1, 2: 2, 3: 4, 4: 4}[type.components]

    def stride(self, type: WgslType) -> int:
        """Bytes from one element of an array to the next."""
        element = type.element or type
        return round_up(self.size(element), self.align(element))

    def size(self, type: WgslType) -> int:
        """Bytes; 0 for a runtime-sized array."""
        if type.is_array:
            return 0 if type.count is None else self.count_of(type.count) * self.stride(type)
        if type.struct is not None:
            return self._struct(type.struct).size
        if type.scalar is None:
            raise Unsized(type.text)
        if type.columns > 1:
            return type.columns * self.align(type)
        return SCALAR_SIZES[type.scalar] * type.components

    def _struct(self, name: str) -> Struct:
        found = self.structs.get(name)
        if found is None or (not found.size and not any(f.type.is_array for f in found.fields)):
            raise Unsized(name)
        return found

    def lay_out(self, name: str, members: list[tuple[str, WgslType, int | None, int | None]]) -> Struct:
        """A struct from (field, type, @size or None, @align or None)."""
        fields, offset, whole = [], 0, 1
        for field, type, asked_size, asked_align in members:
            align = asked_align or self.align(type)
            size = asked_size or self.size(type)
            offset = round_up(offset, align)
            fields.append(Field(field, type, offset, size))
            offset, whole = offset + size, max(whole, align)
        return Struct(name, tuple(fields), round_up(offset, whole), whole)

    def scalars(self, type: WgslType, offset: int = 0) -> list[tuple[int, str]]:
        """(offset, scalar) of every number that a value of this type holds, in order."""
        if type.is_array and type.element is not None:
            if type.count is None:
                raise Unsized(type.text)
            step = self.stride(type)
            return [s for i in range(self.count_of(type.count)) for s in self.scalars(type.element, offset + i * step)]
        if type.struct is not None:
            return [s for f in self._struct(type.struct).fields for s in self.scalars(f.type, offset + f.offset)]
        if type.scalar is None:
            raise Unsized(type.text)
        width = SCALAR_SIZES[type.scalar]
        column = self.align(type)
        return [(offset + c * column + i * width, type.scalar)
                for c in range(type.columns) for i in range(type.components)]  # fmt: skip


_FORMATS = {"f32": "<f", "f16": "<e", "i32": "<i", "u32": "<I", "bool": "<I"}


def pack_number(scalar: str, value: float) -> bytes:
    """One number in its scalar's bytes (little endian). Raises OverflowError, or ValueError for a fraction."""
    if scalar[0] == "f":
        return packing.pack(_FORMATS[scalar], float(value))
    if value != int(value):
        raise ValueError(f"{value} is not a whole number")
    try:
        return packing.pack(_FORMATS[scalar], int(value))
    except packing.error:
        raise OverflowError(f"{int(value)} does not fit {scalar}") from None
