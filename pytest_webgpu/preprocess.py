"""`--webgpu-preprocess`: the WGSL that a command prints for a kernel's file."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path


def preprocessed(path: Path, command: str, kept: Path) -> Path:
    """What `command` prints for the file ({file} in it), kept in the folder `kept` where messages can point at its
    lines, with the side file beside it. Raises KernelError where the command fails."""
    from pytest_webgpu.kernels.source import KernelError

    words = [word.replace("{file}", str(path)) for word in shlex.split(command)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        remedy = f"the command was {shlex.join(words)}"
        raise KernelError(path, 1, f"--webgpu-preprocess failed: {said}", remedy) from None
    printed = kept / path.name
    kept.mkdir(parents=True, exist_ok=True)
    printed.write_text(done.stdout, encoding="utf-8")
    side = path.with_suffix(".toml")
    if side.is_file():
        shutil.copyfile(side, printed.with_suffix(".toml"))
    return printed
