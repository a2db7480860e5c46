"""The kernel of another revision or file; and the gate against itself."""

import subprocess

import pytest

from pytest_webgpu.gate import selftest
from pytest_webgpu.gate.against import AgainstError, edited, other_kernel
from pytest_webgpu.gate.selftest import Rate, self_test, told
from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.source import parse_source, read_source
from pytest_webgpu.performance.stats import Verdict

SILU = """//! op = "silu"
//! workgroups = ["ceil_div(n, 64)"]
//! types = {elem = ["f32", "f16"]}
alias elem = f32;
@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  out[id.x] = x[id.x] / (1 + exp(-x[id.x]));  // REVISION
}
"""


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def kernel(tmp_path):
    """A kernel in its second revision; the first has another line, and no side file."""
    path = tmp_path / "wgsl" / "silu.wgsl"
    path.parent.mkdir()
    git(tmp_path, "init")
    for revision in ("first", "second"):
        path.write_text(SILU.replace("REVISION", revision))
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-m", revision)
    return read_source(path)


def test_the_kernel_of_an_earlier_revision_variant_by_variant(kernel):
    for now in kernel.variants():
        then = other_kernel(now, "HEAD~1")
        assert then.name == now.name
        assert "// first" in then.text
        assert "// second" in now.text
        assert then.sha != now.sha


def test_a_side_file_is_taken_from_the_same_revision(kernel):
    side = kernel.path.with_suffix(".toml")
    side.write_text('workgroups = ["ceil_div(n, 32)"]\n')
    git(side.parent, "add", ".")
    git(side.parent, "commit", "-m", "third")
    now = read_source(kernel.path).variants()[0]
    assert other_kernel(now, "HEAD").header.workgroups == now.header.workgroups
    assert other_kernel(now, "HEAD~1").header.workgroups != now.header.workgroups


def test_edited_kernels_are_those_with_another_text_or_side_file(kernel):
    folder = kernel.path.parent
    for name in ("relu.wgsl", "gelu.wgsl"):
        (folder / name).write_text(SILU)
    (folder / "gelu.toml").write_text("")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "third")
    assert edited(folder, "HEAD") == set()
    (folder / "gelu.toml").write_text('workgroups = ["1"]')
    (folder / "tanh.wgsl").write_text(SILU)
    git(folder, "rm", "relu.wgsl")
    assert edited(folder, "HEAD") == {folder / "gelu.wgsl"}, "one added and one removed have nothing to be paired with"
    assert edited(folder, "HEAD~2") == {kernel.path}
    with pytest.raises(AgainstError, match="'HEAD~9' is neither a file nor a revision"):
        edited(folder, "HEAD~9")


def test_a_file_of_another_name(kernel, tmp_path):
    mine = tmp_path / "mine.wgsl"
    mine.write_text(SILU.replace("REVISION", "mine"))
    assert other_kernel(kernel.variants()[1], str(mine)).name == "mine[f16]"
    mine.write_text(SILU.replace('"silu"', '"add"'))
    with pytest.raises(AgainstError, match="not 'silu'"):
        other_kernel(kernel.variants()[0], str(mine))
    mine.write_text("no kernel")
    with pytest.raises(KernelError):
        other_kernel(kernel.variants()[0], str(mine))


def test_what_is_not_there_is_said(kernel, tmp_path_factory):
    with pytest.raises(AgainstError, match="'HEAD~9' is neither a file nor a revision"):
        other_kernel(kernel.variants()[0], "HEAD~9")
    added = kernel.path.with_name("gelu.wgsl")
    added.write_text(SILU)
    with pytest.raises(AgainstError, match=r"'HEAD' has no wgsl/gelu\.wgsl: it was added later"):
        other_kernel(read_source(added).variants()[0], "HEAD")
    outside = tmp_path_factory.mktemp("outside") / "silu.wgsl"
    outside.write_text(SILU)
    with pytest.raises(AgainstError, match="in no git repository"):
        other_kernel(read_source(outside).variants()[0], "HEAD")
    with pytest.raises(AgainstError, match="came from no file"):
        other_kernel(parse_source(SILU), "HEAD")


def test_a_rate_has_an_exact_interval():
    assert Rate(0, 20).interval == pytest.approx((0.0, 0.168), abs=1e-3)
    assert str(Rate(19, 20)) == "95% [75%, 100%]"


def test_the_gate_against_itself_counts_what_the_paired_rule_says(monkeypatch):
    """On rounds that are made up: exact, so every slowdown is found and A against A is never worse."""

    class Prepared:
        def __enter__(self):
            return ["base", "again"]

        def __exit__(self, *_):
            pass

    def minima(runner, variants, rounds, seed):
        return [[launches * (1 + 0.01 * ((seed + i + r) % 3)) for r in range(rounds)]
                for i, (_, launches) in enumerate(variants)]  # fmt: skip

    monkeypatch.setattr(selftest, "prepared", lambda *_: Prepared())
    monkeypatch.setattr(selftest, "launches_a_sample", lambda *_: 30)
    monkeypatch.setattr(selftest, "round_minima", minima)

    class Candidate:
        key = "mul n=1"

    results = {r.slowdown: r for r in self_test(None, Candidate(), trials=5)}
    assert results[0.0].worse == Rate(0, 5)
    assert [results[s].worse.share for s in (0.05, 0.10, 0.20)] == [1, 1, 1]
    lines = list(told(list(results.values())))
    assert lines[0].startswith("mul n=1: A against A, called worse 0% [0%, 52%]")
    assert lines[2].startswith("mul n=1: 10% slower, found 100% [48%, 100%]")
    assert Verdict.WORSE.value not in lines[0].split("called")[0]
