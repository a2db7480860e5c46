"""Start-up probes: what an adapter must do right before a result on it means anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_webgpu.gpu.job import (
    Bound,
    Dispatch,
    Drop,
    GpuError,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    ReadBuffer,
    Runner,
    RunProgram,
    Slot,
)

DEADLINE = 20.0
WORDS = 512
_OUT = "@group(0) @binding(0) var<storage, read_write> out: array<u32>;\n"


@dataclass(frozen=True)
class Probe:
    """A kernel that writes `out`, and what is wrong with the words it wrote (None: nothing)."""

    name: str
    code: str
    fault: Callable[[Sequence[int]], str | None]
    feature: str | None = None
    workgroups: int = 1


def _expect(wanted: Callable[[int], int], count: int, said: str) -> Callable[[Sequence[int]], str | None]:
    def fault(words: Sequence[int]) -> str | None:
        for i in range(count):
            if words[i] != wanted(i):
                return f"{said}: got {words[i]}, wanted {wanted(i)}"
        return None

    return fault


def _subgroup_fault(words: Sequence[int]) -> str | None:
    sizes, sums = words[0:128:2], words[1:128:2]
    if any(size & (size - 1) or not 1 <= size <= 128 for size in sizes):
        return f"subgroup_size is {sorted(set(sizes))}: no powers of two up to 128"
    if any(total > size or total == 0 for size, total in zip(sizes, sums, strict=True)):
        return f"subgroupAdd(1) gives {sorted(set(sums))} with subgroups of {sorted(set(sizes))}"
    return None


PROBES = (
    # Mesa 22's lavapipe stops every invocation after 65,535 iterations in total, without a word.
    Probe(
        "a loop of 200,000",
        _OUT + "@compute @workgroup_size(1) fn main() {"
        " var sum = 0u; for (var i = 0u; i < 200000u + out[1]; i++) { sum += i & 3u; } out[0] = sum; }",
        _expect(lambda _: 300_000, 1, "a loop of 200,000 iterations ends early or miscounts"),
    ),
    Probe(
        "a barrier",
        _OUT + """var<workgroup> shared_words: array<u32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32, @builtin(workgroup_id) w: vec3<u32>) {
  shared_words[i] = w.x * 64u + i;
  workgroupBarrier();
  let other = shared_words[63u - i];
  workgroupBarrier();
  shared_words[i] = other + 1u;
  workgroupBarrier();
  out[w.x * 64u + i] = shared_words[63u - i];
}""",
        _expect(lambda i: i + 1, 512, "workgroup memory across a barrier is wrong"),
        workgroups=8,
    ),
    Probe(
        "subgroups",
        _OUT + """@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32, @builtin(subgroup_size) size: u32) {
  out[2u * i] = size;
  out[2u * i + 1u] = subgroupAdd(1u);
}""",
        _subgroup_fault,
        "subgroups",
    ),
    Probe(
        "f16",
        """@group(0) @binding(0) var<storage, read_write> out: array<f16>;
@compute @workgroup_size(1) fn main() {
  var x = array<f16, 3>(1.5h, 2.25h, 2048.0h);
  let at = u32(out[8]);
  out[0] = x[at] * x[at + 1u];
  out[1] = x[at] - 1.0h;
  out[2] = x[at + 2u] + x[at + 2u];
  out[3] = -x[at + 1u];
}""",
        # 3.375 and 0.5, then 4096 and -2.25, two to a word
        _expect(lambda i: (0x380042C0, 0xC0806C00)[i], 2, "f16 arithmetic or storage is wrong"),
        "shader-f16",
    ),
)  # fmt: skip


def probe(runner: Runner) -> list[str]:
    """A sentence for each thing that is wrong with the runner's adapter; an empty list says that it is healthy."""
    findings = list(getattr(runner, "notes", []))
    for one in PROBES:
        if one.feature is None or one.feature in runner.info.features:
            try:
                finding = one.fault(_words(runner, one))
            except GpuError as error:
                finding = f"{one.name} cannot be run: {error.message.strip().splitlines()[0]}"
            if finding is not None:
                findings.append(finding)
    return findings


def subgroup_size(runner: Runner) -> tuple[int, int] | None:
    """The smallest and largest subgroup size seen in a workgroup of 64; None without the feature."""
    if "subgroups" not in runner.info.features:
        return None
    sizes = _words(runner, next(p for p in PROBES if p.feature == "subgroups"))[0:128:2]
    return min(sizes), max(sizes)


def _words(runner: Runner, one: Probe) -> Sequence[int]:
    enable = () if one.feature is None else (one.feature,)
    commands = (
        MakeBuffer("probe/out", 4 * WORDS),
        MakePipeline("probe/pipeline", one.code, "main", (Slot(0, 0, "storage"),), enable=enable),
        MakeProgram(
            "probe/program",
            (Dispatch("probe/pipeline", (Bound(0, 0, "probe/out"),), (one.workgroups, 1, 1), one.name),),
        ),
        RunProgram("probe/program", wait=True),
        ReadBuffer("probe/out"),
        Drop(("probe/*",)),
    )
    return memoryview(runner.run(Job(commands), DEADLINE).blob(4)).cast("I").tolist()
