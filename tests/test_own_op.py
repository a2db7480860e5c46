"""An op of one's own from the command line: found where pytest was called, beside a header that leaves it to that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OP = '''
from jaxtyping import Float
from torch import Tensor

def twice(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x + x
'''
KERNEL = """
//! workgroups = ["ceil_div(n, 64)"]
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
override n: u32;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < n) { out[id.x] = x[id.x] + x[id.x]; }
}
"""


def test_the_folder_that_pytest_is_called_in_is_looked_in(tmp_path: Path) -> None:
    (tmp_path / "my_ops.py").write_text(OP)
    (tmp_path / "mine.wgsl").write_text(KERNEL)
    program = Path(sys.executable).with_name("pytest")
    done = subprocess.run(
        [program, "mine.wgsl", "--webgpu-op=my_ops:twice", "--hypothesis-profile=webgpu-quick"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 of 1 kernels right" in done.stdout, done.stdout
    assert done.returncode == 0
