"""Baselines that cannot be trusted: an error each, with file and remedy, and never a pass."""

import dataclasses
import datetime
import json

import pytest

from pytest_webgpu.gate.fingerprint import fingerprint
from pytest_webgpu.gate.rules import Count
from pytest_webgpu.gate.store import BaselineError, Session, load, read, record, write
from pytest_webgpu.gpu.job import DeviceInfo

INFO = DeviceInfo("wgpu-native", "27.0.4", "vulkan", "NVIDIA H200", "nvidia", "580.1", False, ("subgroups",), {})
OURS = fingerprint(INFO, dtype="f32", model="qwen2.5-0.5b")


def session(value=1e-5):
    records = {"dispatch one-pass": record([value]), "linear rows=1": record([2e-3], group="kernels")}
    start = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    return Session(OURS, "one", start, "boot", records, {"tokens": Count(3, {"add": 3})})


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
    "nested": (lambda text: "[" * 100_000, "is nested too deep"),
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
