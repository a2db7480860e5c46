"""Baselines as files: what is written is what is read, and nothing else is read."""

import dataclasses
import datetime
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_webgpu.gate.fingerprint import Fingerprint, fingerprint
from pytest_webgpu.gate.rules import Count
from pytest_webgpu.gate.store import Session, history, load, near_misses, record, write
from pytest_webgpu.gpu.job import DeviceInfo

INFO = DeviceInfo("wgpu-native", "27.0.4", "vulkan", "NVIDIA H200", "nvidia", "580.1", False,
                  ("shader-f16", "subgroups", "timestamp-query"), {}, os="Linux-6.1")  # fmt: skip
OURS = fingerprint(INFO, dtype="f32", model="qwen2.5-0.5b")
START = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC)


def session(name="one", hours=0, boot="b", value=1e-5, **more):
    records = {"dispatch one-pass": record([value, value * 1.1]), "linear rows=1": record([2e-3], group="kernels")}
    started = START + datetime.timedelta(hours=hours)
    return dataclasses.replace(Session(OURS, name, started, boot, records, {"tokens": Count(3, {"add": 3})}), **more)


def test_what_is_read_is_what_was_written(tmp_path):
    first = session(ratios={"headroom": 0.0}, commit={"id": "abc"})
    path = write(tmp_path, first)
    assert load(tmp_path, OURS) == [first]
    assert path.relative_to(tmp_path).as_posix() == f"{OURS.key}/0001_20260102T030400.json"
    assert OURS.key.startswith("wgpu-native-vulkan-nvidia-h200-qwen2.5-0.5b-f32-")
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no lock and no temporary file is left"


def test_pytest_benchmark_reads_it(tmp_path):
    write(tmp_path, session())
    command = [sys.executable, "-m", "pytest_benchmark", "--storage", f"file://{tmp_path}", "compare"]
    shown = subprocess.run([*command, "*/0001"], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "dispatch one-pass" in shown
    assert "linear rows=1" in shown


def test_sessions_of_one_sitting_count_once(tmp_path):
    for name, hours, value in (("a", 0, 1.0), ("b", 0.5, 3.0), ("c", 2, 5.0), ("d", 200, 7.0)):
        write(tmp_path, session(name, hours, boot="x" if hours < 100 else "y", value=value))
    assert history(load(tmp_path, OURS), "dispatch one-pass") == [2.0, 5.0, 7.0]


def test_workers_of_one_run_write_one_file(tmp_path):
    def work(worker):
        write(tmp_path, session("run", records={f"item {worker}": record([1.0])}, counts={}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    (merged,) = load(tmp_path, OURS)
    assert set(merged.records) == {f"item {i}" for i in range(8)}


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path, session())
    before = path.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, session(counts={"more": Count(1)}))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_an_updated_driver_is_a_near_miss_and_another_gpu_is_none(tmp_path):
    write(tmp_path, session())
    updated = fingerprint(dataclasses.replace(INFO, driver="581.0"), dtype="f32", model="qwen2.5-0.5b")
    assert load(tmp_path, updated) == []
    ((near,),) = near_misses(tmp_path, updated)
    assert updated.differences(near.fingerprint) == {"driver": ("581.0", "580.1")}
    assert near_misses(tmp_path, fingerprint(dataclasses.replace(INFO, adapter="RTX 5090"))) == []
    assert near_misses(tmp_path, dataclasses.replace(OURS, dtype="f16")) == []
    assert near_misses(tmp_path, OURS) == [], "an exact match is no near miss"


def test_a_fingerprint_survives_json_and_tells_every_field_apart():
    assert Fingerprint.from_dict(json.loads(json.dumps(OURS.as_dict()))) == OURS
    others = [dataclasses.replace(OURS, **{f: "x"}) for f in OURS.as_dict() if f != "features"]
    assert len({f.key for f in (OURS, dataclasses.replace(OURS, features=()), *others)}) == len(others) + 2
    assert "NVIDIA H200 on vulkan" in OURS.text
    assert OURS.features == ("shader-f16", "subgroups")
