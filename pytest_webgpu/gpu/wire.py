"""Jobs and results as JSON and blobs of bytes, for a pipe or a network."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_webgpu.gpu.job import COMMANDS, Bound, Bytes, Collect, Dispatch, Job, Slot, Variant


def encode(commands: Sequence[Any]) -> tuple[dict[str, Any], list[Bytes]]:
    """Commands as JSON-able data and blobs; a bytes field becomes {"blob": index}."""
    blobs: list[Bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, (bytes, bytearray, memoryview)):
            blobs.append(value)
            return {"blob": len(blobs) - 1}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, (tuple, list)):
            return [plain(v) for v in value]
        return value

    return {"commands": [{"do": c.kind} | plain(c) for c in commands]}, blobs


_NESTED: dict[tuple[str, str], type] = {
    ("make-pipeline", "slots"): Slot,
    ("make-program", "dispatches"): Dispatch,
    ("run-program", "collect"): Collect,
    ("measure", "variants"): Variant,
}


def decode(data: Mapping[str, Any], blobs: Sequence[Bytes]) -> Job:
    """The job that `encode` made into data and blobs."""

    def revive(kind: str, name: str, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"blob"}:
            return blobs[value["blob"]]
        nested = _NESTED.get((kind, name))
        if nested is not None and isinstance(value, list):
            return tuple(_build(nested, v) for v in value)
        if nested is not None and isinstance(value, dict):
            return _build(nested, value)
        return tuple(value) if isinstance(value, list) else value

    commands = []
    for c in data["commands"]:
        kind = c["do"]
        commands.append(COMMANDS[kind](**{k: revive(kind, k, v) for k, v in c.items() if k != "do"}))
    return Job(tuple(commands))


def _build(cls: type, value: Mapping[str, Any]) -> Any:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    if cls is Dispatch:
        fields["bound"] = tuple(Bound(**b) for b in value["bound"])
    return cls(**fields)


def pack(data: Mapping[str, Any], blobs: Sequence[Bytes]) -> list[Bytes]:
    """A message as pieces to send: 4 bytes (little endian) length of the JSON, the JSON, then the blobs."""
    sizes = [memoryview(b).nbytes for b in blobs]
    header = json.dumps({**data, "blob_sizes": sizes}).encode()
    return [len(header).to_bytes(4, "little"), header, *blobs]


def unpack(message: Bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """The data and blobs of a message that `pack` made."""
    view = memoryview(message)
    end = 4 + int.from_bytes(view[:4], "little")
    data: dict[str, Any] = json.loads(bytes(view[4:end]))
    blobs = []
    for size in data.pop("blob_sizes"):
        blobs.append(view[end : end + size])
        end += size
    return data, blobs
