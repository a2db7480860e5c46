"""How long kernels take: their work, their share of a roofline, and the paired comparison, on the adapter here."""

import math

import pytest

from pytest_webgpu.gpu import adapters, open_runner
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops import contract
from pytest_webgpu.ops.launch import launch
from pytest_webgpu.performance.compare import compare_kernels
from pytest_webgpu.performance.kernel import time_kernels
from pytest_webgpu.performance.prepare import LARGE, Candidate
from pytest_webgpu.performance.roofline import FLOPS_A_WORKGROUP, Roofline, measure_roofline
from pytest_webgpu.performance.stats import Verdict, estimate
from pytest_webgpu.performance.work import Work, work

MUL = """//! op = "mul"
//! workgroups = ["ceil_div(n, 64)"]
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
override n: u32;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < n) {
    var product = a[id.x] * b[id.x];
    EXTRA
    out[id.x] = product;
  }
}
"""
FAST = parse_source(MUL.replace("EXTRA", ""), "mul.fast.wgsl")
SLOW = parse_source(
    MUL.replace("EXTRA", "for (var i = 0u; i < 2000u; i++) { product = fma(product, 0.999, 1e-9); }"), "mul.slow.wgsl"
)
LINEAR = """//! op = "linear"
//! workgroups = ["rows", "n"]
//! [storage]
//! weight = "f16x2"
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) { out[id.x] = x[0] * f32(weight[id.y]); }
"""
ATTENTION = """//! op = "attention"
//! workgroups = ["tokens"]
@group(0) @binding(0) var<storage, read> q: array<f32>;
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) { out[id.x] = q[0] + k[0] + v[0]; }
"""


def candidate(kernel, n=4096):
    return Candidate(contract.get("mul"), kernel, {"n": n})


@pytest.fixture(scope="module")
def runner():
    runner = open_runner(adapters.choose())
    yield runner
    runner.close()


def test_work_is_the_bytes_of_the_contract_and_the_flops_of_products():
    mul = contract.get("mul")
    assert work(mul, launch(mul, FAST, {"n": 4096}, {})) == Work(3 * 4 * 4096, 0)
    linear = contract.get("linear")
    one = launch(linear, parse_source(LINEAR), {"rows": 2, "k": 896, "n": 1152}, {})
    assert work(linear, one) == Work(2 * 896 * 4 + 896 * 1152 * 2 + 2 * 1152 * 4, 2 * 2 * 896 * 1152)


def test_attention_reads_what_it_sees_of_the_cache():
    attention = contract.get("attention")
    dims = {"tokens": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "capacity": 100}
    got = work(attention, launch(attention, parse_source(ATTENTION), dims, {"start": 10, "scale": 1.0}))
    assert got.bytes == 4 * (2 * 2 * 4 * 8 + 2 * 2 * 12 * 8)
    assert got.flops == 4 * 4 * 8 * (11 + 12)


def test_a_share_is_of_the_slower_ceiling_and_its_interval_holds_both():
    roofline = Roofline(estimate([100.0, 110.0, 90.0]), estimate([1000.0, 1000.0]))
    time = estimate([2.0, 2.0, 2.2])
    memory, compute = Work(100, 10), Work(1, 1000)
    assert roofline.limited_by(memory) == "copy bandwidth"
    assert roofline.limited_by(compute) == "multiply-add rate"
    share = roofline.share(memory, time)
    assert share.value == pytest.approx(0.5)
    assert share.low <= 100 / 110 / 2.2 < 0.5 < 100 / 90 / 2.0 <= share.high
    assert roofline.share(compute, time).value == pytest.approx(0.5)


def test_the_ceilings_of_this_adapter(runner):
    roofline = measure_roofline(runner, rounds=3, budget=0.3)
    assert 1e7 < roofline.bandwidth.value < 1e14
    assert 1e7 < roofline.rate.value < 1e16
    assert FLOPS_A_WORKGROUP == 2 * 4 * 8 * 256 * 256


def test_times_and_shares(runner):
    roofline = Roofline(estimate([1e9, 1e9]), estimate([1e9, 1e9]))
    large = LARGE // 4
    times = time_kernels(runner, [candidate(FAST), candidate(SLOW), candidate(FAST, large)], roofline=roofline,
                         rounds=4, budget=1.0)  # fmt: skip
    assert set(times.measured) | set(times.not_measured) == {
        "mul.fast n=4096", "mul.slow n=4096", f"mul.fast n={large}"}  # fmt: skip
    for one in times.measured.values():
        assert one.time.low > 0
        assert one.share.value == pytest.approx(one.work.bytes / 1e9 / one.time.value)
        assert one.limit == "copy bandwidth"
    beyond = (64 if runner.info.software else 128) << 20
    assert {key: one.copies for key, one in times.measured.items()}.items() <= {
        "mul.fast n=4096": 1, "mul.slow n=4096": 1, f"mul.fast n={large}": math.ceil(beyond / (2 * LARGE)),
    }.items()  # fmt: skip


def test_real_extra_work_is_worse_and_the_lack_of_it_is_not(runner):
    slower, faster = (
        compare_kernels(runner, candidate(mine), [candidate(other)], rounds=12).compared[0][1]
        for mine, other in ((SLOW, FAST), (FAST, SLOW))
    )
    assert slower.verdict is Verdict.WORSE
    assert slower.ratio > 1.5
    assert faster.verdict is Verdict.NOT_WORSE
