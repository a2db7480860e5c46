"""Start-up probes: a healthy adapter has no findings, and each fault is found."""

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import describe, list_adapters
from pytest_webgpu.gpu.job import DeadlineExceeded, Result
from pytest_webgpu.gpu.probe import PROBES, WORDS, probe, subgroup_size


class Broken:
    """A runner whose every kernel leaves zeros behind, or that hangs."""

    generation = 0
    notes = ("max-buffer-size is 1 here; WebGPU's default is 268435456",)

    def __init__(self, info, hangs=False):
        self.info, self.hangs = info, hangs

    def run(self, job, deadline=None):
        if self.hangs:
            raise DeadlineExceeded(f"The job did not end in {deadline:g} s: its process was killed.")
        return Result([None] * 4 + [{"blob": 0}], [bytes(4 * WORDS)])

    def close(self):
        pass


def test_this_machine_is_healthy():
    for adapter in list_adapters():
        runner = open_runner(adapter, in_process=True)
        assert probe(runner) == [], describe(adapter)
        sizes = subgroup_size(runner)
        assert (sizes is not None) == ("subgroups" in runner.info.features)
        assert sizes is None or 1 <= sizes[0] <= sizes[1] <= 128


def test_every_fault_is_a_finding():
    info = next(a.info for a in list_adapters() if {"subgroups", "shader-f16"} <= {*a.info.features})
    findings = probe(Broken(info))
    assert len(findings) == len(PROBES) + 1
    assert findings[1] == "a loop of 200,000 iterations ends early or miscounts: got 0, wanted 300000"
    assert probe(Broken(info, hangs=True))[1] == (
        "a loop of 200,000 cannot be run: The job did not end in 20 s: its process was killed."
    )
