"""Which buffer an intermediate result lies in: buffers are taken from a pool and go back after their last use."""

from __future__ import annotations

from pytest_webgpu.compiler.plan import Buffer, Kind


class Pool:
    """Buffers for activations and scratch. One that a step reads goes back only after the step has its own, so that
    nothing is read and written in one dispatch."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.sizes: dict[str, int] = {}
        self.free: list[str] = []

    def take(self, size: int) -> str:
        """A free buffer of at least `size` bytes: the smallest that is large enough, or the largest one grown."""
        fit = [n for n in self.free if self.sizes[n] >= size]
        if fit:
            name = min(fit, key=self.sizes.__getitem__)
        elif self.free:
            name = max(self.free, key=self.sizes.__getitem__)
            self.sizes[name] = size
        else:
            name = f"{self.prefix}{len(self.sizes)}"
            self.sizes[name] = size
        if name in self.free:
            self.free.remove(name)
        return name

    def give(self, name: str) -> None:
        self.free.append(name)

    def buffers(self, kind: Kind) -> dict[str, Buffer]:
        return {n: Buffer(n, kind, "f32", (size // 4,), size) for n, size in self.sizes.items()}


class Arena:
    """Small constant data (uniforms, numbers) in one buffer, each piece once, at offsets that can be bound."""

    def __init__(self, name: str, kind: Kind, align: int = 256) -> None:
        self.name, self.kind, self.align = name, kind, align
        self.data = bytearray()
        self.places: dict[bytes, int] = {}

    def put(self, data: bytes) -> int:
        """The offset at which `data` lies."""
        if data not in self.places:
            self.data += bytes(-len(self.data) % self.align)
            self.places[data] = len(self.data)
            self.data += data
        return self.places[data]

    def buffer(self) -> Buffer:
        size = len(self.data) + -len(self.data) % 16
        return Buffer(self.name, self.kind, "f32", (size // 4,), size, data=bytes(self.data).hex())
