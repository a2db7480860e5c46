"""The kernels of another git revision, or of a file, to be timed against those at hand (`--webgpu-against`)."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

from pytest_webgpu.kernels.kernel import KernelSource
from pytest_webgpu.kernels.source import parse_source, read_source


class AgainstError(Exception):
    """The other kernel cannot be had: no such revision or file, no such kernel in it, or no git repository."""


def edited(folder: Path, revision: str) -> set[Path]:
    """The .wgsl files of a folder that are otherwise at a revision, or whose side files are; not those added since.

    Raises AgainstError where there is no such revision.
    """
    _require(folder, revision)
    told = _git(folder, "diff", "--name-only", "--relative", "--diff-filter=MT", "-z", revision, "--", ".")
    names = [name for name in told.stdout.decode().split("\0") if name]
    return {(folder / name).with_suffix(".wgsl") for name in names if name.endswith((".wgsl", ".toml"))}


def other_kernel(kernel: KernelSource, against: str) -> KernelSource:
    """The kernel that `kernel` was at a revision, or the one in a file; the variant of the same name.

    Raises AgainstError, and KernelError for a source that is no kernel.
    """
    if kernel.path is None:
        raise AgainstError(f"{kernel.name} came from no file, so no revision has it: name a file")
    path = kernel.path.resolve()
    if Path(against).is_file():
        found = read_source(Path(against)).variants()
        same = [k for k in found if k.variant == kernel.variant] or (found if len(found) == 1 else [])
    else:
        text = _at(against, path)
        side = _at(against, path.with_suffix(".toml"), missing_ok=True)
        assert text is not None
        found = parse_source(text, path, tomllib.loads(side) if side else None).variants()
        same = [k for k in found if k.name == kernel.name]
    if not same:
        raise AgainstError(f"{against} has no {kernel.name}; it has {', '.join(k.name for k in found)}")
    if same[0].header.op != kernel.header.op:
        raise AgainstError(f"{against} has {same[0].name} as {same[0].header.op!r}, not {kernel.header.op!r}")
    return same[0]


def _at(revision: str, path: Path, missing_ok: bool = False) -> str | None:
    """The text of a file at a revision; None where it was not there and that is allowed."""
    inside = path.relative_to(_require(path, revision)).as_posix()
    shown = _git(path.parent, "show", "--end-of-options", f"{revision}:{inside}")
    if shown.returncode == 0:
        return shown.stdout.decode()
    if missing_ok:
        return None
    raise AgainstError(f"revision {revision!r} has no {inside}: it was added later, or had another name")


def _require(path: Path, revision: str) -> Path:
    """The root of the repository of a file or folder, which has the revision."""
    folder = path if path.is_dir() else path.parent
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top.returncode:
        raise AgainstError(f"{path} is in no git repository, so it has no revision {revision!r}: name a file")
    if _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").returncode:
        raise AgainstError(f"{revision!r} is neither a file nor a revision of the repository of {path}")
    return Path(top.stdout.decode().strip()).resolve()


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise AgainstError("git is not installed, so there is no other revision: name a file") from None
