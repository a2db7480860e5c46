"""The wheel holds the suites, the kernels and the baselines, and runs from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*args: str, cwd: Path, path: Path = ROOT) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, *args], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_what_is_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("wgsl", "baselines"):
        files = {f"pytest_webgpu/{p.relative_to(ROOT)}" for p in (ROOT / folder).rglob("*") if p.is_file()}
        assert files, folder
        assert files <= names
    assert {n for n in names if n.endswith(".py")} >= {
        f"pytest_webgpu/{p.relative_to(ROOT)}" for p in (ROOT / "suites").rglob("*.py")
    }
    assert "pytest_webgpu/py.typed" in names
    assert not any(name.startswith(("tests/", "suites/")) for name in names)


def test_the_suites_are_found_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)
    place = run("-c", "from pytest_webgpu import resources; print(resources.folder('wgsl'))", cwd=empty, path=site)
    assert place.strip() == str(site / "pytest_webgpu" / "wgsl")
    suites = ["--pyargs", "pytest_webgpu.suites", "--collect-only", "-q"]
    listed = run("-m", "pytest", *suites, cwd=empty, path=site)
    for suite in ("conformance", "dispatch", "qwen2"):
        assert f"{suite}/test_" in listed, listed
