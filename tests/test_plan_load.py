"""Plans kept on disk, and what is sent to a runner."""

import numpy as np
import pytest

from pytest_webgpu.compiler.build import PlanCache, build, key_of
from pytest_webgpu.compiler.choose import Chooser
from pytest_webgpu.compiler.load import Session, pieces
from pytest_webgpu.compiler.plan import Buffer, Rows
from pytest_webgpu.gpu.job import Drop, MakeBuffer, MakePipeline, MakeProgram, Result, WriteBuffer
from pytest_webgpu.kernels.library import Library
from pytest_webgpu.qwen2.config import find_model
from tests.steps import device, step
from tests.stub_kernels import stub_library


class Recorder:
    """A runner that only remembers what it was sent."""

    def __init__(self):
        self.info, self.generation, self.jobs = device(), 0, []

    def run(self, job, deadline=None):
        self.jobs.append(job.commands)
        return Result([None] * len(job.commands))

    def sent(self, kind):
        return [c for job in self.jobs for c in job if isinstance(c, kind)]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return stub_library(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="module")
def plans(library):
    return [build(step(tokens), Chooser(library, device())) for tokens in (1, 16)]


class Counted:
    """Weights whose element i of a tensor is i."""

    def __init__(self, **shapes):
        self.shapes = shapes

    def shape(self, name):
        return self.shapes[name]

    def read(self, name, first, count):
        whole = np.arange(np.prod(self.shapes[name]), dtype=np.float32).reshape(self.shapes[name])
        return whole[first : first + count]


@pytest.mark.parametrize("storage", ["f32", "f16x2"])
@pytest.mark.parametrize("most", [16, 100, 1 << 20])
def test_weights_stream_in_whole_words(storage, most):
    """Two parts of an odd number of halves each: the second begins in the middle of a word."""
    weights = Counted(a=(3, 3), b=(5, 3))
    buffer = Buffer("w", "weight", storage, (7, 3), 96, (Rows("a", 0, 3), Rows("b", 1, 4)))
    sent = bytearray(96)
    end = 0
    for offset, data in pieces(weights, buffer, most):
        assert offset == end
        assert len(data) % 4 == 0
        assert len(data) <= max(most, 4 * 2 * 3 + 4)
        sent[offset : offset + len(data)] = data
        end = offset + len(data)
    wanted = np.concatenate([weights.read("a", 0, 3), weights.read("b", 1, 4)])
    kind = np.float16 if storage == "f16x2" else np.float32
    assert sent[: wanted.size * kind().itemsize] == wanted.astype(kind).tobytes()


def test_what_plans_share_is_sent_once(plans):
    runner, model = Recorder(), find_model("tiny")
    session = Session(runner, model.weights)
    session.load(*plans)
    names = [c.name for c in runner.sent(MakeBuffer)]
    assert len(names) == len(set(names)) == len({b for p in plans for b in p.buffers})
    floats = sum(np.prod(s) for s in model.weights.shapes.values())
    weights = {session.name(b.name) for p in plans for b in p.buffers.values() if b.kind == "weight"}
    assert sum(len(c.data) for c in runner.sent(WriteBuffer) if c.name in weights) == 4 * floats
    programs = [c.name.rpartition("/")[2] for c in runner.sent(MakeProgram)]
    assert programs == ["step1.body", "step16.body", "step16.head"]
    assert sum(len(c.dispatches) for c in runner.sent(MakeProgram)) == sum(p.dispatches for p in plans)
    pipelines = [c.name for c in runner.sent(MakePipeline)]
    assert len(pipelines) == len(set(pipelines))
    before = len(runner.jobs)
    session.load(*plans)
    assert len(runner.jobs) == before


def test_a_fresh_device_is_filled_again(plans):
    runner = Recorder()
    session = Session(runner, find_model("tiny").weights)
    session.load(plans[0])
    first = len(runner.sent(MakeBuffer))
    runner.generation = 1
    session.load(plans[0])
    assert len(runner.sent(MakeBuffer)) == 2 * first


def test_sessions_do_not_meet_and_leave_nothing(plans):
    runner = Recorder()
    sessions = [Session(runner, find_model("tiny").weights) for _ in range(2)]
    for session in sessions:
        session.load(plans[0])
    names = [c.name for c in runner.sent(MakeBuffer)]
    assert len(names) == len(set(names))
    sessions[0].close()
    assert runner.sent(Drop) == [Drop((sessions[0].prefix + "*",))]


def test_kept_plans(plans, tmp_path):
    cache = PlanCache(tmp_path / "plans")
    assert cache.get("a") is None
    cache.put("a", plans[0])
    cache.put("a", plans[0])  # another process was first
    assert cache.get("a").steps == plans[0].steps
    assert [p.name for p in (tmp_path / "plans").iterdir()] == ["a"]
    (tmp_path / "plans" / "a" / "plan.json").write_text("{")
    assert cache.get("a") is None


def test_the_key_knows_what_decides_a_plan(tmp_path, library):
    (tmp_path / "a.wgsl").write_text("one")
    empty = Library(tmp_path)
    one = key_of(empty, tokens=1, limits={"b": 1, "a": 2})
    assert one == key_of(empty, tokens=1, limits={"a": 2, "b": 1})
    assert one != key_of(empty, tokens=16, limits={"a": 2, "b": 1})
    swap = library.for_op("add")[:1]
    assert one != key_of(empty.with_swaps(swap), tokens=1, limits={"a": 2, "b": 1})
    (tmp_path / "a.wgsl").write_text("two")
    assert one != key_of(empty, tokens=1, limits={"a": 2, "b": 1})
