"""From a model to a plan, and plans kept on disk so that the next start need not capture again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from pytest_webgpu import __version__
from pytest_webgpu.compiler.errors import CompilerError
from pytest_webgpu.compiler.plan import SCHEMA, Plan
from pytest_webgpu.kernels.library import Library

if TYPE_CHECKING:
    from pytest_webgpu.compiler.capture import Captured
    from pytest_webgpu.compiler.choose import Chooser

_PACKAGE = Path(__file__).resolve().parent.parent


def build(captured: Captured, chooser: Chooser, fusions: str | Iterable[str] = "all") -> Plan:
    """Lowers, fuses and schedules a captured step. Raises CompilerError: Unsupported, NoKernel, TooLarge."""
    from pytest_webgpu.compiler.fuse import chosen, fuse  # torch is imported when something is compiled
    from pytest_webgpu.compiler.schedule import schedule

    names = chosen(fusions)
    lowered, notes = fuse(captured, names, chooser.refuse, chooser.is_swapped)
    told = tuple(f"{times} x {note}" for note, times in notes.most_common())
    return schedule(lowered, chooser, tuple(sorted(names)), told)


def key_of(library: Library, **facts: Any) -> str:
    """A key over everything that decides a plan: `facts`, the kernels' files, this package, torch and transformers."""
    digest = hashlib.sha256()
    code = [f for room in ("compiler", "ops", "kernels") for f in (_PACKAGE / room).glob("*.py")]
    for file in sorted(code) + sorted(p for p in library.folder.rglob("*") if p.suffix in (".wgsl", ".toml")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    versions = {name: _version(name) for name in ("torch", "transformers")}
    swaps = [k.sha for k in library.swaps]
    told = {"schema": SCHEMA, "package": __version__, "versions": versions, "swaps": swaps, **facts}
    digest.update(json.dumps(told, sort_keys=True, default=_plain).encode())
    return digest.hexdigest()[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((str(k), v) for k, v in value.items())
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


class PlanCache:
    """Plans by key, a folder each. A folder appears whole or not at all."""

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder or Path(platformdirs.user_cache_dir("pytest-webgpu"), "plans"))

    def get(self, key: str) -> Plan | None:
        """The stored plan; None where there is none, or one that cannot be read (it is made anew, then)."""
        if not (self.folder / key).is_dir():
            return None
        try:
            return Plan.read(self.folder / key)
        except CompilerError:
            shutil.rmtree(self.folder / key, ignore_errors=True)
            return None

    def put(self, key: str, plan: Plan) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            plan.save(fresh)
            os.replace(fresh, self.folder / key)
        except OSError:  # another process was first: its plan is as good
            shutil.rmtree(fresh, ignore_errors=True)
