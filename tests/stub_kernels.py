"""Kernels that claim every op and bind what it takes, for tests of the planner: none of them is ever run."""

from pathlib import Path

from pytest_webgpu.kernels.library import Library
from pytest_webgpu.ops import contract as contracts

HALVES = ("weight", "k", "v", "cache", "k_cache", "v_cache", "kv_cache")


def stub(contract, halves=(), without=(), header=""):
    """The text of a kernel of `contract` whose `halves` are f16x2 and that does not bind `without`."""
    written = {o.name for o in contract.outputs}
    names = dict.fromkeys(a.name for a in (*contract.args, *contract.outputs) if a.name not in without)
    numbers = [s.name for s in contract.scalars if s.name == "start"]
    lines = [f'//! op = "{contract.name}"', '//! workgroups = ["1"]', header]
    if halves:
        lines += ["//! [storage]", *(f'//! {n} = "f16x2"' for n in names if n in halves)]
    for i, name in enumerate((*names, *numbers)):
        kind = contract.tensor(name).kind if name in names else "int"
        element = "u32" if name in halves or kind == "int" else "f32"
        access = "read_write" if name in written else "read"
        lines.append(f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{element}>;")
    uses = " ".join(f"_ = {n}[0];" for n in (*names, *numbers))
    return "\n".join([*lines, "@compute @workgroup_size(1)", f"fn main() {{ {uses} }}", ""])


def stub_library(folder: Path, leave_out=(), headers=None) -> Library:
    """Stubs of all ops but some, in f32 and with packed halves, with and without each optional argument."""
    for contract in contracts.all_ops():
        if contract.name in leave_out:
            continue
        optional = [a.name for a in contract.args if a.optional]
        for without in [(), optional] if optional else [()]:
            for halves in ((), HALVES if contract.name != "copy" else ("x",)):
                if halves and not any(n in halves for n in (a.name for a in contract.args)):
                    continue
                name = ".".join([contract.name, *(["short"] if without else []), *(["f16x2"] if halves else [])])
                text = stub(contract, halves, without, (headers or {}).get(contract.name, ""))
                (folder / f"{name}.wgsl").write_text(text)
    return Library(folder)
