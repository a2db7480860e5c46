"""Uniform variables as bytes: each number of a struct matched by its field's name, in WGSL's layout."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_webgpu.kernels.errors import nearest
from pytest_webgpu.kernels.expression import ExpressionError
from pytest_webgpu.kernels.kernel import Binding, KernelSource
from pytest_webgpu.kernels.types import WgslType, pack_number, round_up

Numbers = Mapping[str, int | float]


class Packer:
    """`numbers`: dims and scalars, which fields match by name. `names`: what expressions of `[set]` see.

    `offers` ends the message about a field that nothing matches.
    """

    def __init__(self, kernel: KernelSource, numbers: Numbers, names: Numbers, offers: str) -> None:
        self.kernel, self.numbers, self.names, self.offers = kernel, numbers, names, offers

    def uniform(self, b: Binding) -> bytes:
        """The bytes of a uniform variable, a struct or a bare number; a multiple of 16."""
        data = bytearray(round_up(max(self.kernel.layout().size(b.type), 4), 16))
        self.fill(data, b.type, 0, b.name, b.name, b.line)
        return bytes(data)

    def fill(self, data: bytearray, type: WgslType, offset: int, name: str, path: str, line: int) -> None:
        """Writes a field's numbers. `path` (`params.n`) serves `[set]` where one name occurs in several structs."""
        settings, field = self.kernel.header.set, self.kernel.header.bind.get(name, name)
        setting = settings.get(path) or settings.get(name)
        if setting is None and type.struct is not None and not type.is_array:
            for f in self.kernel.struct(type.struct).fields:
                self.fill(data, f.type, offset + f.offset, f.name, f"{path}.{f.name}", line)
            return
        places = self.kernel.layout().scalars(type, offset)
        if setting is not None:
            try:
                values = [e.value(self.names) for e in setting]
            except ExpressionError as problem:
                raise self.kernel.header_error(f"set.{name}", problem.message, problem.remedy) from None
        elif field in self.numbers:
            values = [self.numbers[field]]
        else:
            raise self.kernel.error(line, f"`{path}` matches no dim or scalar", nearest(name, self.numbers)
                                    + f'{self.offers}; or say what it is: [set] {name} = "..."')  # fmt: skip
        if len(values) != len(places):
            raise self.kernel.error(line, f"`{path}` holds {len(places)} numbers and gets {len(values)}",
                                    f"list an expression for each: [set] {name} = [...]")  # fmt: skip
        for (place, scalar), value in zip(places, values, strict=True):
            packed = self.number(scalar, value, path, line)
            data[place : place + len(packed)] = packed

    def number(self, scalar: str, value: int | float, name: str, line: int) -> bytes:
        """One number as its WGSL scalar."""
        try:
            return pack_number(scalar, value)
        except (ValueError, OverflowError) as problem:
            remedy = "declare it with another type, or change its [set]"
            raise self.kernel.error(line, f"`{name}` is {scalar}, but {problem}", remedy) from None
