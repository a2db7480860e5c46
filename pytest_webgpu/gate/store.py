"""Baselines as files: one session a file, in pytest-benchmark's JSON, under measured/<fingerprint>/.

A file is written whole or not at all and carries a checksum, so what is loaded is what was recorded. What
pytest-benchmark has no place for (exact counts, ratios such as conformance headroom, the session) is under
"webgpu" at the top level; its own tools pass over that.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import re
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import platformdirs
import psutil
from pytest_benchmark import __version__ as benchmark_version
from pytest_benchmark.stats import Stats

from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.gate.rules import Count, sittings

SCHEMA = 1
RECORD_AGAIN = "Restore it (git checkout), or delete it and record again with --webgpu-update-baselines."


class BaselineError(Exception):
    """A baseline that cannot be read or written: which file, what is wrong, what to do. Never a pass."""

    def __init__(self, path: Path, message: str, remedy: str = RECORD_AGAIN) -> None:
        super().__init__(f"{path}: {message}. {remedy}")
        self.path, self.message, self.remedy = path, message, remedy


@dataclass(frozen=True)
class Record:
    """One benchmark of a session: `samples` in seconds, one a round; `value` is what is judged (lower is better)."""

    samples: tuple[float, ...]
    value: float
    group: str | None = None
    extra_info: Mapping[str, Any] = field(default_factory=dict)


def record(samples: Sequence[float], value: float | None = None, **rest: Any) -> Record:
    """A Record whose value is the least of its samples unless given (a slope's is its median)."""
    return Record(tuple(samples), min(samples) if value is None else value, **rest)


@dataclass(frozen=True)
class Session:
    """What one run measured. `id` is the run's: the xdist workers of a run have one, and their records are merged.

    Keys are made of op, kernel and dims, never of node ids. `ratios` are values without a unit (headroom).
    """

    fingerprint: Fingerprint
    id: str
    started: datetime.datetime
    boot: str
    records: Mapping[str, Record] = field(default_factory=dict)
    counts: Mapping[str, Count] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    commit: Mapping[str, Any] = field(default_factory=dict)
    processes: int = 1  # of which a record's value is the least
    path: Path | None = field(default=None, compare=False)


def boot_id() -> str:
    """What tells one boot of this machine from the next; good to a minute, since the clock is set now and then."""
    return str(round(psutil.boot_time() / 60))


def write(root: Path, session: Session) -> Path:
    """Stores the session, merged with what its other workers stored, and returns the file.

    The new file replaces the old in one step: an interrupted run leaves the old one. Raises BaselineError where the
    folder cannot be written.
    """
    folder = root / session.fingerprint.key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            there = {s.id: s for s in _read_folder(folder, session.fingerprint)}
            if earlier := there.get(session.id):
                session = _merged(earlier, session)
            path = session.path or folder / f"{_next_number(folder):04}_{session.started:%Y%m%dT%H%M%S}.json"
            _replace(path, json.dumps(_document(session), indent=1, allow_nan=False) + "\n")
    except (OSError, filelock.Timeout) as error:
        raise BaselineError(
            folder, f"cannot be written ({error})", "Name another with --webgpu-baselines-dir."
        ) from error
    return path


def load(root: Path, fingerprint: Fingerprint) -> list[Session]:
    """The sessions of this fingerprint, oldest first; none where nothing was recorded. Raises BaselineError."""
    return sorted(_read_folder(root / fingerprint.key, fingerprint), key=lambda s: s.started)


def near_misses(root: Path, fingerprint: Fingerprint) -> list[list[Session]]:
    """Sessions by fingerprint, for those that differ only in what an update changes; the newest last."""
    near = []
    for folder in sorted(root.glob("*/")):
        sessions = _read_folder(folder, None)
        if sessions and fingerprint.is_near(sessions[0].fingerprint):
            near.append(sorted(sessions, key=lambda s: s.started))
    return sorted(near, key=lambda sessions: sessions[-1].started)


def history(sessions: Sequence[Session], key: str) -> list[float]:
    """The values of a benchmark, one a sitting (the median of its sessions), oldest first."""
    having = [s for s in sessions if key in s.records]
    groups = sittings([(s.boot, s.started) for s in having])
    return [statistics.median(having[i].records[key].value for i in group) for group in groups]


def read(path: Path) -> Session:
    """One stored session. Raises BaselineError: empty, cut short, of a later schema, edited, or with values missing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(path, f"cannot be read ({error})") from error
    if not text.strip():
        raise BaselineError(path, "is empty")
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg
        what = "is cut short" if cut else f"is no JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        raise BaselineError(path, what) from error
    except ValueError as error:
        raise BaselineError(path, str(error)) from error
    except RecursionError as error:
        raise BaselineError(path, "is nested too deep to be read") from error
    ours = data.get("webgpu") if isinstance(data, dict) else None
    if not isinstance(ours, dict) or not isinstance(ours.get("schema"), int):
        raise BaselineError(path, "was not recorded by pytest-webgpu (it has no webgpu.schema)", "Move it elsewhere.")
    if ours["schema"] > SCHEMA:
        raise BaselineError(path, f"has schema {ours['schema']}, and this version reads {SCHEMA}",
                            "Update pytest-webgpu, or record it again.")  # fmt: skip
    if ours.get("checksum") != _checksum(data):
        raise BaselineError(path, "was edited after it was recorded (its checksum differs)")
    try:
        return _session(data, path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        missing = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BaselineError(path, missing) from error


def _read_folder(folder: Path, fingerprint: Fingerprint | None) -> list[Session]:
    sessions = [read(path) for path in sorted(folder.glob("*.json"))]
    ids: dict[str, Path | None] = {}
    for session in sessions:
        assert session.path is not None
        expected = fingerprint or session.fingerprint
        if session.fingerprint != expected or session.fingerprint.key != folder.name:
            differences = session.fingerprint.differences(expected)
            what = ", ".join(f"{k} {a!r} for {b!r}" for k, (a, b) in differences.items()) or session.fingerprint.text
            raise BaselineError(session.path, f"is of another device or model than its folder ({what})",
                                f"Move it to {session.fingerprint.key}.")  # fmt: skip
        if session.id in ids:
            raise BaselineError(session.path, f"is the same session as {ids[session.id]}", "Remove one of the two.")
        ids[session.id] = session.path
    return sessions


def _refuse_constant(name: str) -> float:
    raise ValueError(f"holds {name}, which is no measured value")


def _number(value: Any, what: str, zero: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {value!r}, which is no number")
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise ValueError(f"{what} is {value}, which was never measured")
    return float(value)


def _session(data: Mapping[str, Any], path: Path) -> Session:
    ours = data["webgpu"]
    records = {}
    for entry in data["benchmarks"]:
        key, told = entry["name"], dict(entry["extra_info"])
        samples = tuple(_number(x, f"a sample of {key}") for x in entry["stats"]["data"])
        if not samples:
            raise ValueError(f"{key} has no samples")
        records[key] = Record(samples, _number(told.pop("value"), f"the value of {key}"), entry["group"], told)
    counts = {key: Count(_whole(c["total"], key), {p: _whole(n, f"{key}, {p}") for p, n in c["parts"].items()})
              for key, c in ours["counts"].items()}  # fmt: skip
    return Session(
        fingerprint=Fingerprint.from_dict(data["machine_info"]["webgpu"]),
        id=ours["session"],
        started=datetime.datetime.fromisoformat(data["datetime"]),
        boot=ours["boot"],
        records=records,
        counts=counts,
        ratios={key: _number(x, key, zero=True) for key, x in ours["ratios"].items()},
        commit=data["commit_info"],
        processes=_whole(ours["processes"], "the number of processes"),
        path=path,
    )


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{what} is {value!r}, which is no count")
    return value


def _document(session: Session) -> dict[str, Any]:
    benchmarks = []
    for key, one in session.records.items():
        stats: Any = Stats()  # type: ignore[no-untyped-call]
        for sample in one.samples:
            stats.update(_number(sample, f"a sample of {key}"))
        benchmarks.append({
            "group": one.group, "name": key, "fullname": key, "params": None, "param": None,
            "extra_info": {**one.extra_info, "value": _number(one.value, f"the value of {key}")}, "options": {},
            "stats": {**stats.as_dict(), "data": list(one.samples), "iterations": 1},
        })  # fmt: skip
    data: dict[str, Any] = {
        "machine_info": {"cpu": {"brand_raw": session.fingerprint.cpu}, "webgpu": session.fingerprint.as_dict()},
        "commit_info": dict(session.commit),
        "benchmarks": benchmarks,
        "datetime": session.started.astimezone(datetime.UTC).isoformat(),
        "version": benchmark_version,
        "webgpu": {
            "schema": SCHEMA,
            "session": session.id,
            "boot": session.boot,
            "processes": session.processes,
            "counts": {k: {"total": c.total, "parts": dict(c.parts)} for k, c in session.counts.items()},
            "ratios": {k: _number(x, k, zero=True) for k, x in session.ratios.items()},
        },
    }
    data["webgpu"]["checksum"] = _checksum(data)
    return data


def _checksum(data: Mapping[str, Any]) -> str:
    """Of everything but itself, whatever the layout of the text."""
    rest = {**data, "webgpu": {k: v for k, v in data["webgpu"].items() if k != "checksum"}}
    return "sha256:" + hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _merged(earlier: Session, later: Session) -> Session:
    return Session(
        fingerprint=earlier.fingerprint,
        id=earlier.id,
        started=earlier.started,
        boot=earlier.boot,
        records={**earlier.records, **later.records},
        counts={**earlier.counts, **later.counts},
        ratios={**earlier.ratios, **later.ratios},
        commit=earlier.commit or later.commit,
        processes=earlier.processes,
        path=earlier.path,
    )


def _next_number(folder: Path) -> int:
    taken = [int(m[1]) for p in folder.glob("*.json") if (m := re.match(r"(\d{4,})_", p.name))]
    return max(taken, default=0) + 1


def _lock(folder: Path) -> filelock.BaseFileLock:
    """Outside the folder, so that nothing but baselines lies there."""
    locks = platformdirs.user_cache_path("pytest-webgpu") / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return filelock.FileLock(locks / f"{name}.lock", timeout=60)


def _replace(path: Path, text: str) -> None:
    """Through a temporary file in the same folder, so that the name holds the old bytes or the new, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
