"""A model's items in suites/qwen2 stand together, whatever else is asked, so that its measurements are made once."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_items_of_one_model_and_dtype_stand_together():
    asked = ["suites/qwen2", "--webgpu-model=tiny,qwen2.5-0.5b", "--webgpu-dtype=f32,f16"]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "slow or not slow", *asked]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120).stdout
    models = re.findall(r"\[(tiny|qwen2\.5-0\.5b)-(f32|f16)-", shown)
    assert len(models) > 40
    assert len([*itertools.groupby(models)]) == 4
