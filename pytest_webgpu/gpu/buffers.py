"""Buffers of a native device, pooled by size class, and what moves bytes in and out of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from pytest_webgpu.gpu.calls import Calls
from pytest_webgpu.gpu.checks import Sized, whole_size
from pytest_webgpu.gpu.job import Bytes, ValidationError

POOLED_BYTES = 16 << 20  # larger buffers are made to measure and freed when dropped
FINE_BYTES = 64 << 10  # larger size classes lie closer together
POOL_BYTES = 256 << 20
CHUNK = POOLED_BYTES  # large reads go through staging buffers of the pool, large writes likewise in pieces
STAGED_BYTES = 64 << 20  # of writes that the library may hold before they are submitted


@dataclass(eq=False)
class Buffer:
    """`size` is what was asked for and what is bound; `capacity` what was allocated. `holders` are names and programs.

    `stale`: from the pool and not yet written or cleared, so its bytes are another buffer's.
    """

    native: Any
    size: int
    usage: str
    capacity: int
    holders: int = 1
    stale: bool = False


class Buffers:
    """Makes, recycles, writes, clears and reads the buffers of one device. Counts what it issues in `counts`."""

    def __init__(self, module: Any, device: Any, calls: Calls, limits: Mapping[str, int], counts: dict[str, int]):
        self._device, self._calls, self._limits, self.counts = device, calls, limits, counts
        u = module.BufferUsage
        copy = u.COPY_SRC | u.COPY_DST
        self._usages = {
            "storage": u.STORAGE | copy,
            "uniform": u.UNIFORM | copy,
            "indirect": u.STORAGE | u.INDIRECT | copy,
            "staging": u.MAP_READ | u.COPY_DST,
        }
        self._free: dict[tuple[str, int], list[Buffer]] = defaultdict(list)
        self._free_bytes = 0
        self._stale: set[Buffer] = set()
        self._unsubmitted = 0
        self._bytes = self._peak = 0

    def memory(self) -> dict[str, int]:
        """Bytes of the buffers in use now, and at most since the last time that this was asked."""
        told = {"bytes": self._bytes, "peak_bytes": self._peak}
        self._peak = self._bytes
        return told

    def make(self, size: int, usage: str = "storage") -> Buffer:
        """A buffer whose bytes are zero at its first use. `size` in bytes, rounded up to 4."""
        size = whole_size(size, self._limits)
        capacity = min(self._limits["max-buffer-size"], pooled_size(size)) if size <= POOLED_BYTES else size
        self._bytes += capacity
        self._peak = max(self._peak, self._bytes)
        if free := self._free.get((usage, capacity)):
            buffer = free.pop()
            self._free_bytes -= capacity
            buffer.size, buffer.holders, buffer.stale = size, 1, True
            self._stale.add(buffer)
            return buffer
        self.counts["buffers"] += 1
        native = self._device.create_buffer(size=capacity, usage=self._usages[usage])
        return Buffer(native, size, usage, capacity)

    def time_creation(self, size: int) -> float:
        """Seconds that making a storage buffer takes, the pool aside."""
        began = perf_counter()
        native = self._device.create_buffer(size=size, usage=self._usages["storage"])
        seconds = perf_counter() - began
        native.destroy()
        self.counts["buffers"] += 1
        return seconds

    def release(self, buffer: Buffer) -> None:
        """One holder less; without any the buffer goes back to the pool, or is destroyed."""
        buffer.holders -= 1
        if buffer.holders:
            return
        self._bytes -= buffer.capacity
        self._stale.discard(buffer)
        if buffer.capacity > POOLED_BYTES or self._free_bytes + buffer.capacity > POOL_BYTES:
            buffer.native.destroy()
        else:
            self._free[buffer.usage, buffer.capacity].append(buffer)
            self._free_bytes += buffer.capacity

    def write(self, buffer: Buffer, data: Bytes, offset: int = 0) -> None:
        view = memoryview(data).cast("B")
        check_range(buffer, offset, view.nbytes, "write")
        if not view.nbytes:
            return
        if view.nbytes == buffer.size:
            self._stale.discard(buffer)
        self.settle()
        for start in range(0, view.nbytes, CHUNK):
            piece = view[start : start + CHUNK]
            self._device.queue.write_buffer(buffer.native, offset + start, piece)
            self._unsubmitted += piece.nbytes
            if self._unsubmitted >= STAGED_BYTES:  # staged bytes are only freed after a submit
                self.flush()
        self._count(writes=1, bytes_written=view.nbytes)

    def flush(self) -> None:
        """Submits the writes and waits for them: wgpu-native begins none before a submit."""
        self._device.queue.submit([])
        self._calls.wait()
        self._count(submits=1, waits=1)
        self._unsubmitted = 0

    def fill(self, buffer: Buffer, word: int, offset: int, size: int) -> None:
        """The 32-bit `word` over `size` bytes; zero by a clear on the device, anything else by writing it."""
        check_range(buffer, offset, size, "fill")
        if size == buffer.size:
            self._stale.discard(buffer)
        if word == 0:
            self.settle()
            encoder = self._device.create_command_encoder()
            encoder.clear_buffer(buffer.native, offset, size)
            self._device.queue.submit([encoder.finish()])
            self._count(submits=1)
            return
        piece = (word & 0xFFFFFFFF).to_bytes(4, "little") * (min(size, CHUNK) // 4)
        for start in range(0, size, CHUNK):
            self.write(buffer, memoryview(piece)[: min(CHUNK, size - start)], offset + start)

    def copy(self, source: Buffer, target: Buffer, size: int, source_offset: int, target_offset: int) -> None:
        check_range(source, source_offset, size, "copy from")
        check_range(target, target_offset, size, "copy to")
        if source is target:
            raise ValidationError("A copy within one buffer is not allowed")
        self.settle()
        encoder = self._device.create_command_encoder()
        encoder.copy_buffer_to_buffer(source.native, source_offset, target.native, target_offset, size)
        self._device.queue.submit([encoder.finish()])
        self._count(submits=1)

    def settle(self) -> None:
        """Clears the recycled buffers that nothing has been written to, before anything can see their bytes."""
        if not self._stale:
            return
        encoder = self._device.create_command_encoder()
        for buffer in self._stale:
            encoder.clear_buffer(buffer.native, 0, buffer.size)
        self._device.queue.submit([encoder.finish()])
        self._count(submits=1)
        self._stale.clear()

    def read(self, buffer: Buffer, offset: int, size: int) -> Bytes:
        """A copy of the bytes, after everything that was submitted before."""
        check_range(buffer, offset, size, "read")
        self.settle()
        data = bytearray(size)
        for start in range(0, size, CHUNK):
            length = min(CHUNK, size - start)
            staging = self.staging(length)
            encoder = self._device.create_command_encoder()
            encoder.copy_buffer_to_buffer(buffer.native, offset + start, staging.native, 0, length)
            self._device.queue.submit([encoder.finish()])
            self._count(submits=1)
            self._take(staging, memoryview(data)[start : start + length])
        self._count(reads=1, bytes_read=size)
        return data

    def staging(self, size: int) -> Buffer:
        """A buffer to copy to and `take` from; unlike the others it is not cleared."""
        buffer = self.make(size, "staging")
        self._stale.discard(buffer)
        return buffer

    def take(self, staging: Buffer, size: int) -> Bytes:
        """What was copied to a staging buffer, which goes back to the pool."""
        data = bytearray(size)
        self._take(staging, memoryview(data))
        self._count(reads=1, bytes_read=size)
        return data

    def _take(self, staging: Buffer, target: memoryview) -> None:
        self._calls.take(staging.native, target)
        self.release(staging)

    def _count(self, **issued: int) -> None:
        for name, n in issued.items():
            self.counts[name] += n


def pooled_size(size: int) -> int:
    """Bytes of the size class that `size` bytes are in: powers of two from 256, from 64 KiB in 16 steps each.

    The large ones are what a model is made of, and at most a sixteenth too much; the small ones are many, and few
    classes find them in the pool.
    """
    power = max(256, 1 << (size - 1).bit_length())
    step = power if power <= FINE_BYTES else power // 32
    return -(-size // step) * step


def check_range(buffer: Sized, offset: int, size: int, what: str) -> None:
    if offset % 4 or size % 4:
        raise ValidationError(f"Cannot {what} {size} bytes at {offset}: both must be multiples of 4")
    if offset < 0 or size < 0 or offset + size > buffer.size:
        raise ValidationError(f"Cannot {what} {size} bytes at {offset}: the buffer has {buffer.size}")
