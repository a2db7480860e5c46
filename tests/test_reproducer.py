"""A failure leaves a folder that shows it without this project."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_webgpu.conformance.check import ConformanceFailure, Settings, check
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get
from tests.faulty_kernels import ADD, SOFTMAX


@pytest.fixture(scope="module")
def runner():
    opened = open_runner(choose("auto", "wgpu-native", None))
    yield opened
    opened.close()


def fail(text, runner, folder, **settings):
    kernel = parse_source(text, Path("mine.wgsl"))
    with pytest.raises(ConformanceFailure) as failure:
        check(get(kernel.header.op), kernel, runner, settings=Settings(failures=folder, **settings))
    (script,) = folder.glob("*/reproduce.py")
    assert f"without us     python {script}" in str(failure.value)
    assert f"in a browser   {script.with_suffix('.html')}" in str(failure.value)
    return failure.value, script


def run(script):
    """In an interpreter that cannot see this project."""
    command = [sys.executable, "-I", str(script)]
    return subprocess.run(command, capture_output=True, text=True, cwd=script.parent, timeout=60, check=False)


def test_the_script_shows_the_fault_and_its_end(runner, tmp_path):
    failure, script = fail(SOFTMAX.replace("/ total", "/ (total + 0.5)"), runner, tmp_path)
    done = run(script)
    assert done.returncode == 1, done.stderr
    assert "elements are wrong" in done.stdout
    worst = json.dumps(list(map(int, str(failure).split("out[")[1].split("]")[0].split(","))))
    assert f"at {worst}: got" in done.stdout
    kernel = script.parent / "kernel.wgsl"
    kernel.write_text(kernel.read_text().replace("/ (total + 0.5)", "/ total"))
    mended = run(script)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "out: 0 of" in mended.stdout


def test_a_hang_leaves_its_inputs(runner, tmp_path):
    text = ADD.replace("    let i = id.x;", "    let i = id.x;\n    loop { if (out[0] == 1.25) { break; } }")
    _, script = fail(text, runner, tmp_path, deadline=0.5)
    case = json.loads((script.parent / "case.json").read_text())
    assert {b["variable"] for b in case["bindings"]} == {"a", "b", "out", "params"}
    assert case["outputs"] == []


def test_the_page_holds_kernel_and_case(runner, tmp_path):
    _, script = fail(ADD.replace("a[i] +", "/* </script> */ 2.0 * a[i] +"), runner, tmp_path)
    page = script.with_suffix(".html").read_text()
    assert page.count("</script>") == 1
    assert "{{" not in page
    assert json.loads(page.split("const CASE = ")[1].split(";\n")[0])["op"] == "add"
