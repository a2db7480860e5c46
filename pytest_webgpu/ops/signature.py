"""Which dtype, or packed form, a kernel holds each tensor of a contract in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_webgpu.kernels.errors import listing
from pytest_webgpu.kernels.kernel import Binding, KernelSource

if TYPE_CHECKING:
    from pytest_webgpu.ops.contract import Contract, TensorArg

PACKED = {"f16x2": ("f16", 2, 4), "i8x4": ("i8", 4, 4), "q4_32": ("q4", 32, 20)}
"""Packed storages: dtype, elements a block, bytes a block. q4_32: a word of f16 scale (low) and f16 zero point
(high), then four words of eight nibbles each, the lowest nibble first; value = (nibble - zero point) * scale."""
_DTYPES = {"float": ("f32", "f16"), "int": ("i32", "u32"), "bool": ("u32",)}


def signature(op: Contract, kernel: KernelSource) -> dict[str, str]:
    """The dtype, or packed storage, of every tensor that the kernel binds, by the contract's names. KernelError."""
    found: dict[str, str] = {}
    for b in kernel.bindings:
        name = kernel.header.bind.get(b.name, b.name)
        if b.space == "storage" and name in tensors(op):
            dtype, storage = element(kernel, b, tensors(op)[name])
            found[name] = dtype if storage == "plain" else storage
    missing = [a for a in (*op.args, *op.outputs) if a.name not in found and not a.optional]
    if missing:
        name = missing[0].name
        raise kernel.error(kernel.entries[0].line, f"{op.name} needs a binding `{name}` that the kernel lacks",
                           f"the kernel binds: {listing(b.name for b in kernel.bindings)}; name one `{name}`, "
                           f'or say which it is: [bind] VARIABLE = "{name}"')  # fmt: skip
    return found


def tensors(op: Contract) -> dict[str, TensorArg]:
    return {t.name: t for t in (*op.args, *op.outputs)}


def offers(op: Contract) -> str:
    numbers = [*op.dims, *(s.name for s in op.scalars)]
    return f"{op.name} offers tensors {listing(tensors(op))}; numbers {listing(numbers)}"


def element(kernel: KernelSource, b: Binding, tensor: TensorArg) -> tuple[str, str]:
    """The dtype and storage of a tensor's binding."""
    storage = kernel.header.storage.get(tensor.name) or kernel.header.storage.get(b.name)
    if not b.type.is_array and b.type.struct is not None:
        raise kernel.error(b.line, f"`{b.name}` is a struct, not the tensor {tensor}",
                           f"declare var<storage, {b.access}> {b.name}: array<f32>")  # fmt: skip
    if storage is not None:
        if b.type.struct is None and b.type.scalar not in ("u32", "i32"):
            raise kernel.error(b.line, f"`{b.name}` is stored as {storage} but declared {b.type.text}",
                               "declare it array<u32>, array<vec2<u32>> or array<vec4<u32>>")  # fmt: skip
        return PACKED[storage][0], storage
    if b.type.components == 3:
        raise kernel.error(b.line, f"`{b.name}` is {b.type.text}, which leaves every fourth number unused",
                           "declare it as scalars: array<f32>")  # fmt: skip
    if b.type.scalar not in _DTYPES[tensor.kind]:
        packed = f', or pack it: [storage] {tensor.name} = "f16x2"' if b.type.scalar == "u32" else ""
        raise kernel.error(b.line, f"`{b.name}` is {b.type.text} where {kernel.header.op} has {tensor}",
                           f"declare its elements {' or '.join(_DTYPES[tensor.kind])}{packed}")  # fmt: skip
    return b.type.scalar, "plain"
