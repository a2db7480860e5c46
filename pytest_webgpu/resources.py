"""Finds the suites, the kernels and the baselines: in the checkout first, else in the wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `suites`, `wgsl` or `baselines`. Raises FileNotFoundError naming both places it looked in."""
    # site-packages may hold a folder of that name which is another project's: it is looked at in a checkout only
    places = [root / name for root in (checkout(), _PACKAGE) if root is not None]
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(map(str, places))
    raise FileNotFoundError(f"no folder {name}: looked in {looked}; install pytest-webgpu again")


def checkout() -> Path | None:
    """The root of the checkout that this package runs from, or None where it was installed from a wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "suites" / "conformance").is_dir() else None
