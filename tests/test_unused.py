"""A project that does not use the plugin does not pay for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "wgpu", "wgpudawn", "numpy", "scipy", "hypothesis", "jaxtyping", "lark", "transformers")


def test_loading_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        f"import sys\ndef test_other():\n    print('IMPORTED', sorted(set(sys.modules) & set({HEAVY!r})))\n"
        "    assert 'pytest_webgpu.plugin' in sys.modules\n"
    )
    # other plugins of the environment import what they like: jaxtyping's own imports jaxtyping
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "pytest_webgpu.plugin", "--rootdir=.", "test_other.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "IMPORTED []" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
