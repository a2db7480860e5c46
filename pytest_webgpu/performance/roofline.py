"""The adapter's own ceilings, measured by two small kernels: how fast it copies, and how fast it multiplies and adds.

A kernel's bound is the slower of its bytes at the copy bandwidth and its flops at the multiply-add rate (Williams,
Waterman and Patterson 2009); its share is that bound over the time it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_webgpu.gpu.job import (
    Bound,
    Command,
    Dispatch,
    Drop,
    Job,
    MakeBuffer,
    MakePipeline,
    MakeProgram,
    Measure,
    Runner,
    RunProgram,
    Slot,
    Variant,
)
from pytest_webgpu.performance.stats import Estimate, MeasurementError, cost, estimate
from pytest_webgpu.performance.work import Work

PREFIX = "performance.roofline."
HARDWARE_COPY, SOFTWARE_COPY = 128 << 20, 16 << 20  # bytes; two pairs of buffers in turn, beyond any last-level cache
INVOCATIONS = 256
LOOPS = 256
CHAINS = 8
LONG_ENOUGH = 2e-3  # seconds that one dispatch of multiply-adds is to take
COUNTS = (1, 2, 4, 8, 16)

COPY = f"""@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
@compute @workgroup_size({INVOCATIONS}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  if (id.x < arrayLength(&out)) {{ out[id.x] = x[id.x]; }}
}}
"""
# Independent chains, so that the latency of one hides behind the others. The store never happens, which no compiler
# can know.
MULTIPLY_ADD = f"""@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;
@compute @workgroup_size({INVOCATIONS}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let scale = vec4<f32>(0.999);
  let shift = vec4<f32>(f32(id.x & 255u)) * 1e-3;
  {" ".join(f"var a{i} = shift + {float(i)};" for i in range(CHAINS))}
  for (var i = 0u; i < {LOOPS}u; i++) {{
    {" ".join(f"a{i} = fma(a{i}, scale, shift);" for i in range(CHAINS))}
  }}
  let sum = {" + ".join(f"a{i}" for i in range(CHAINS))};
  if (sum.x == -1.0) {{ out[0] = sum; }}
}}
"""
FLOPS_A_WORKGROUP = 2 * 4 * CHAINS * LOOPS * INVOCATIONS


@dataclass(frozen=True)
class Roofline:
    """`bandwidth` in bytes a second (read and written both count), `rate` in flops a second (f32)."""

    bandwidth: Estimate
    rate: Estimate

    def seconds(self, work: Work) -> float:
        """The least time that this adapter needs for the work."""
        return max(work.bytes / self.bandwidth.value, work.flops / self.rate.value)

    def limited_by(self, work: Work) -> str:
        memory = work.bytes / self.bandwidth.value >= work.flops / self.rate.value
        return "copy bandwidth" if memory else "multiply-add rate"

    def share(self, work: Work, time: Estimate) -> Estimate:
        """The bound over the time. Its interval takes both intervals at their worst, so it is wide, never narrow."""
        low = max(work.bytes / self.bandwidth.high, work.flops / self.rate.high) / time.high
        high = max(work.bytes / self.bandwidth.low, work.flops / self.rate.low) / time.low
        return Estimate(self.seconds(work) / time.value, low, high)


def measure_roofline(runner: Runner, *, rounds: int = 10, budget: float = 2.0, seed: int = 0) -> Roofline:
    """Measures both ceilings, interleaved; about 2 x `budget` seconds, and four times that where it gives no line."""
    limits = runner.info.limits
    size = SOFTWARE_COPY if runner.info.software else HARDWARE_COPY
    size = min(size, limits.get("max-storage-buffer-binding-size", size), limits.get("max-buffer-size", size)) & ~0xFFF
    try:
        workgroups = _prepare(runner, size)
        try:
            seconds = _lines(runner, rounds, budget, seed)
        except MeasurementError:
            seconds = _lines(runner, rounds, 4 * budget, seed)
    finally:
        runner.run(Job((Drop((f"{PREFIX}*",)),)))
    return Roofline(_rates(2 * size, seconds[0]), _rates(FLOPS_A_WORKGROUP * workgroups, seconds[1]))


def _lines(runner: Runner, rounds: int, budget: float, seed: int) -> list[tuple[float, ...]]:
    """Seconds a dispatch, by round, of a copy and of multiply-adds."""
    variants = tuple(
        Variant(name, f"{PREFIX}{name}", "one-pass", COUNTS, rounds=rounds, budget_seconds=budget)
        for name in ("copy", "multiply-add")
    )
    value = runner.run(Job((Measure(variants, seed, warm_up_seconds=1.0),)), deadline=4 * budget + 60).values[0]
    assert value is not None
    return [cost((r, n, k, s) for i, r, n, k, s in value["samples"] if i == v).b.per_round for v in (0, 1)]


def _rates(amount: float, seconds: Sequence[float]) -> Estimate:
    return estimate([amount / s for s in seconds])


def _prepare(runner: Runner, size: int) -> int:
    """Makes the programs; the multiply-adds in as many workgroups (returned) as keep the adapter busy."""
    commands: list[Command] = [MakeBuffer(f"{PREFIX}{name}", size) for name in ("x0", "out0", "x1", "out1")]
    commands.append(
        MakePipeline(f"{PREFIX}copy", COPY, "main", (Slot(0, 0, "read-only-storage"), Slot(0, 1, "storage")))
    )
    commands.append(MakePipeline(f"{PREFIX}multiply-add", MULTIPLY_ADD, "main", (Slot(0, 0, "storage"),)))
    groups = (size // (16 * INVOCATIONS), 1, 1)
    pairs = (
        Dispatch(f"{PREFIX}copy", (Bound(0, 0, f"{PREFIX}x{i}"), Bound(0, 1, f"{PREFIX}out{i}")), groups)
        for i in (0, 1)
    )
    runner.run(Job((*commands, MakeProgram(f"{PREFIX}copy", tuple(pairs)), RunProgram(f"{PREFIX}copy", 2))))
    workgroups = 8
    while True:
        name = f"{PREFIX}multiply-add"
        program = MakeProgram(name, (Dispatch(name, (Bound(0, 0, f"{PREFIX}out0"),), (workgroups, 1, 1)),))
        value = runner.run(Job((program, RunProgram(name, wait=True), RunProgram(name, wait=True)))).values[-1]
        assert value is not None
        if value["seconds"] >= LONG_ENOUGH or workgroups >= 32768:
            return workgroups
        workgroups *= 4
