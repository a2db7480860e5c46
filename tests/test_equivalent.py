"""Mutants that are no faults, as `equivalent.toml` says."""

from pathlib import Path

import pytest

from pytest_webgpu import resources
from pytest_webgpu.kernels.equivalent import read_equivalent, reason_of
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.kernels.mutants import mutants
from pytest_webgpu.kernels.source import parse_source

KERNEL = """//! op = "add"
//! workgroups = ["n"]
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < 8u) { // all of them
        out[id.x] = 1.0;
    }
}
"""
ENTRY = '[[equivalent]]\nreason = "n is 8"\nfaults = ["no bounds check"]\nlines = ["if (id.x < 8u) {"]\n'


def reasons(folder: Path, entry: str) -> list[tuple[str, str | None]]:
    (folder / "equivalent.toml").write_text(entry)
    kernel = parse_source(KERNEL, folder / "eight.wgsl")
    return [(m.fault, reason_of(kernel, m, read_equivalent(folder))) for m in mutants(kernel)]


def test_an_entry_describes_a_fault_of_a_line(tmp_path: Path) -> None:
    found = reasons(tmp_path, ENTRY)
    assert ("no bounds check", "n is 8") in found
    assert [reason for _, reason in found].count("n is 8") == 1


def test_an_entry_for_other_kernels(tmp_path: Path) -> None:
    assert {r for _, r in reasons(tmp_path, ENTRY + 'kernels = ["seven", "s*"]\n')} == {None}
    assert {r for _, r in reasons(tmp_path, ENTRY + 'kernels = ["e*"]\n')} == {None, "n is 8"}


def test_all_forms_of_a_fault(tmp_path: Path) -> None:
    found = reasons(tmp_path, ENTRY.replace("no bounds check", "guard"))
    assert ("guard: <= for <", "n is 8") in found


def test_the_line_behind_tells_equal_lines_apart(tmp_path: Path) -> None:
    assert "n is 8" in {r for _, r in reasons(tmp_path, ENTRY + 'next = ["sum*", "out*"]\n')}
    assert {r for _, r in reasons(tmp_path, ENTRY + 'next = ["}"]\n')} == {None}


def test_what_the_fault_makes_of_the_line_tells_faults_of_one_kind_apart(tmp_path: Path) -> None:
    assert "n is 8" not in {r for _, r in reasons(tmp_path, ENTRY + 'into = ["if (id.x < 8u) {"]\n')}
    assert "n is 8" in {r for _, r in reasons(tmp_path, ENTRY + 'into = ["if (true) {"]\n')}


def test_a_folder_without_the_file(tmp_path: Path) -> None:
    assert read_equivalent(tmp_path) == []


@pytest.mark.parametrize(("entry", "message"), [
    (ENTRY.replace("reason", "why"), "entry 1: why"), (ENTRY.replace('"n is 8"', '""'), "entry 1: reason"),
    ("equivalent", "is no TOML"),
])  # fmt: skip
def test_a_bad_file(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        reasons(tmp_path, entry)


def test_every_entry_of_the_shipped_kernels_describes_a_mutant() -> None:
    folder = resources.folder("wgsl")
    entries = read_equivalent(folder)
    assert entries
    made = [(k, m) for k in Library(folder).all() for m in mutants(k)]
    idle = [e for e in entries if not any(e.describes(k, m) for k, m in made)]
    assert idle == []
