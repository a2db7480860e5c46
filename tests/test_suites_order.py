"""Items that share what a session fixture measures stand together, so that it is measured once."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def collected(*options: str) -> str:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120).stdout


def test_items_of_one_model_and_dtype_stand_together():
    shown = collected("suites/qwen2", "--webgpu-model=tiny,qwen2.5-0.5b", "--webgpu-dtype=f32,f16")
    models = re.findall(r"\[(tiny|qwen2\.5-0\.5b)-(f32|f16)-", shown)
    assert len(models) > 40
    assert len([*itertools.groupby(models)]) == 4


def test_items_of_one_adapter_stand_together_and_on_it_those_that_are_measured_together():
    pytest.importorskip("wgpudawn")
    shown = collected("suites", "-m", "slow or not slow", "--webgpu-implementation=wgpu-native,dawn")
    adapters = re.findall(r"::\w+\[.*?(wgpu-native|dawn)-auto", shown)
    assert len(adapters) > 500
    assert len([*itertools.groupby(adapters)]) == 2
    efforts = re.findall(r"test_cost_of_a_dispatch\[(wgpu-native|dawn)-auto-(quick|full)", shown)
    assert len([*itertools.groupby(efforts)]) == 4
