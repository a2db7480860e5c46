"""What is seen when a shipped kernel is broken: the case, the adapter, and the command that shows it again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_webgpu import resources
from pytest_webgpu.conformance.failure import Subject, replay_command
from pytest_webgpu.conformance.inputs import Case
from pytest_webgpu.gpu.job import DeviceInfo
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get
from pytest_webgpu.subject import Wgsl

from .test_collect import ADD, QUICK


def test_without_its_barrier_rms_norm_is_wrong(pytester: pytest.Pytester) -> None:
    text = (resources.folder("wgsl") / "rms_norm.wgsl").read_text()
    assert "workgroupBarrier();" in text
    broken = pytester.path / "rms_norm.wgsl"
    broken.write_text(text.replace("workgroupBarrier();", ""))
    result = pytester.runpytest_inprocess(str(broken), "-k", "f32", QUICK)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "ConformanceFailure: *: *rms_norm.wgsl [[]f32] as rms_norm is wrong",
            "  worst element  *",
            "  adapter        *",
            "  again with     pytest *rms_norm.wgsl --webgpu-replay=*",
            "  without us     python *reproduce.py",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    command = re.search(r"again with     pytest (.*)", result.stdout.str())
    assert command is not None
    again = pytester.runpytest_inprocess(*shlex.split(command[1]), "-k", "f32")
    again.assert_outcomes(failed=1, deselected=1)
    again.stdout.fnmatch_lines(["ConformanceFailure: *: *rms_norm.wgsl [[]f32] as rms_norm is wrong"])


def test_the_command_names_the_device_again() -> None:
    info = DeviceInfo("dawn", "1", "vulkan", "Some GPU", "", "", False, (), {})
    subject = Subject(get("add"), parse_source(ADD, "mine.wgsl"), info, ("--webgpu-adapter=Some GPU",))
    told = replay_command(subject, Case({"n": 4}))
    assert told.startswith("pytest mine.wgsl '--webgpu-adapter=Some GPU' --webgpu-replay=")


def test_each_folder_is_named_once(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_here.py::test")
    state = SimpleNamespace(config=SimpleNamespace(
        rootpath=pytestconfig.rootpath, invocation_params=SimpleNamespace(dir=pytestconfig.rootpath)))  # fmt: skip
    with pytest.raises(FileNotFoundError) as caught:
        Wgsl(None, state)._find(Path("nofile.wgsl"))  # type: ignore[arg-type]
    folders = str(caught.value).partition("looked in ")[2].split(", ")
    assert len(folders) == len(set(folders)) == 2
