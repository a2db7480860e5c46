"""`--webgpu-preprocess`: the WGSL that a command prints for a kernel's file."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from pytest_webgpu import usage


def preprocessed(path: Path, command: str, kept: Path) -> Path:
    """What `command` prints for the file ({file} in it), kept in the folder `kept` where messages can point at its
    lines, with the side file beside it. Raises KernelError where the command fails."""
    from pytest_webgpu.kernels.source import KernelError

    words = [word.replace("{file}", str(path)) for word in usage.command(command)]
    remedy = f"the command was {shlex.join(words)}"
    try:
        done = subprocess.run(words, capture_output=True, check=True)
        text = done.stdout.decode("utf-8")
    except UnicodeDecodeError as error:
        raise KernelError(path, 1, f"--webgpu-preprocess printed what is not UTF-8: {error}", remedy) from None
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        told = said.decode("utf-8", errors="replace").strip()
        raise KernelError(path, 1, f"--webgpu-preprocess failed: {told}", remedy) from None
    printed = kept / path.name
    kept.mkdir(parents=True, exist_ok=True)
    printed.write_text(text, encoding="utf-8")
    side = path.with_suffix(".toml")
    if side.is_file():
        shutil.copyfile(side, printed.with_suffix(".toml"))
    return printed
