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
from pytest_webgpu.gate.store import BaselineError, Session, history, load, near_misses, read, record, write
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


def edited(change):
    def edit(text):
        data = json.loads(text)
        change(data)
        return json.dumps(data)

    return edit


BAD = {
    "empty": (lambda text: "", "is empty"),
    "cut short": (lambda text: text[: len(text) // 2], "is cut short"),
    "no JSON": (lambda text: text.replace('"records"', "records").replace("{", "<", 1), "is no JSON"),
    "later schema": (edited(lambda d: d["webgpu"].update(schema=2)), "has schema 2, and this version reads 1"),
    "another tool's": (edited(lambda d: d.pop("webgpu")), "was not recorded by pytest-webgpu"),
    "NaN": (lambda text: text.replace("0.002", "NaN", 1), "holds NaN"),
    "a value edited": (edited(lambda d: d["benchmarks"][0]["extra_info"].update(value=9.9)), "was edited"),
    "a list": (lambda text: "[]", "was not recorded by pytest-webgpu"),
    "not text": (lambda text: "\udcff", "cannot be read"),
}


@pytest.mark.parametrize("damage", BAD)
def test_a_damaged_baseline_is_an_error_that_names_file_and_remedy(tmp_path, damage):
    path = write(tmp_path, session())
    change, message = BAD[damage]
    path.write_bytes(change(path.read_text()).encode(errors="surrogateescape"))
    with pytest.raises(BaselineError, match=message) as caught:
        load(tmp_path, OURS)
    assert str(path) in str(caught.value)
    assert caught.value.remedy


VALUES = {
    "negative": (lambda d: d["benchmarks"][0]["extra_info"].update(value=-1.0), "value of dispatch one-pass is -1.0"),
    "zero": (lambda d: d["benchmarks"][0]["stats"]["data"].append(0), "a sample of dispatch one-pass is 0"),
    "null": (lambda d: d["benchmarks"][1]["stats"].update(data=[None]), "a sample of linear rows=1 is None"),
    "no value": (lambda d: d["benchmarks"][0]["extra_info"].clear(), "lacks 'value'"),
    "no samples": (lambda d: d["benchmarks"][0]["stats"].update(data=[]), "has no samples"),
    "no session": (lambda d: d["webgpu"].pop("session"), "lacks 'session'"),
    "half a count": (lambda d: d["webgpu"]["counts"]["tokens"].update(total=1.5), "which is no count"),
}


@pytest.mark.parametrize("damage", VALUES)
def test_values_are_checked_even_where_the_checksum_holds(tmp_path, damage, monkeypatch):
    path = write(tmp_path, session())
    data = json.loads(path.read_text())
    change, message = VALUES[damage]
    change(data)
    monkeypatch.setattr("pytest_webgpu.gate.store._checksum", lambda _: data["webgpu"]["checksum"])
    path.write_text(json.dumps(data))
    with pytest.raises(BaselineError, match=message):
        read(path)


def test_every_cut_is_an_error(tmp_path):
    path = write(tmp_path, session())
    whole = path.read_text().rstrip()
    for end in range(0, len(whole), 97):
        path.write_text(whole[:end])
        with pytest.raises(BaselineError):
            read(path)


def test_a_file_of_another_model_or_stored_twice_is_an_error(tmp_path):
    path = write(tmp_path, session())
    twin = path.with_name("0002_copy.json")
    twin.write_bytes(path.read_bytes())
    with pytest.raises(BaselineError, match=r"0002_copy.json: is the same session as .*0001_"):
        load(tmp_path, OURS)
    other = dataclasses.replace(OURS, model="tiny")
    (tmp_path / other.key).mkdir()
    path.rename(tmp_path / other.key / path.name)
    with pytest.raises(
        BaselineError, match=r"another device or model than its folder \(model 'qwen2.5-0.5b' for 'tiny'"
    ):
        load(tmp_path, other)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BaselineError, match=r"cannot be written .* --webgpu-baselines-dir"):
        write(tmp_path / "file", session())


def test_a_value_that_is_no_time_is_never_stored(tmp_path):
    with pytest.raises(ValueError, match="which was never measured"):
        write(tmp_path, session(value=float("nan")))
    assert load(tmp_path, OURS) == []


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
