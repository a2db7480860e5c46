"""Conformance, dispatch cost and token speed of WebGPU compute kernels, as a pytest plugin."""

from pathlib import Path

__version__ = "0.1.0"

_root = Path(__file__).resolve().parent.parent
if (_root / "suites" / "__init__.py").is_file():  # a checkout: `--pyargs pytest_webgpu.suites` finds the suites there
    __path__.append(str(_root))
