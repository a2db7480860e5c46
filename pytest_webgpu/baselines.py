"""What a run measured, recorded as baselines (`--webgpu-update-baselines`) and compared with those there are."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_benchmark.utils import get_commit_info

from pytest_webgpu.gate import rules, store
from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.performance.stats import Verdict
from pytest_webgpu.report.results import Results

GATED_FIRST = ("model", "dispatch")  # groups whose figures gate before others: rules.GATED of them in all


def finish(results: Results, settings: Mapping[str, Any], root: Path) -> bool:
    """Compares and records what was measured, as the settings say; the lines for the summary go to `results.notes`.

    Returns whether the run fails by it: something got worse under `--webgpu-gate=fail`, or was not measured or could
    not be judged under `strict`, or a baseline could not be read or written.
    """
    if settings["gate"] == "off" and not settings["update-baselines"]:
        return False
    failing: list[rules.Judgement] = []
    try:
        if settings["gate"] != "off":
            compared = list(compare(root, results))
            results.notes += _told(compared)
            results.notes += near_misses(root, results)
            if settings["gate"] != "warn":
                failing = worse(compared, settings["gate"] == "strict")
        if settings["update-baselines"]:
            results.notes += record(root, results)
    except store.BaselineError as error:
        results.notes.append(f"baselines: ERROR {error}")
        return True
    unmeasured = settings["gate"] == "strict" and any(r.startswith("NOT MEASURED") for r in results.reasons)
    return bool(failing) or unmeasured


def _told(compared: list[rules.Judgement]) -> Iterator[str]:
    if not compared:
        return
    by_verdict: dict[Verdict | None, list[rules.Judgement]] = defaultdict(list)
    for c in compared:
        by_verdict[c.verdict].append(c)
    counted = ", ".join(f"{len(those)} {v.value}" for v in Verdict if (those := by_verdict[v]))
    yield f"baselines: {counted or 'nothing judged'}"
    for judgement in by_verdict[Verdict.WORSE]:
        yield f"  WORSE {judgement.key}: {judgement.ratio:.2f} of its baseline, {judgement.reason}"
    for judgement in by_verdict[Verdict.CANNOT_TELL][:3]:
        yield f"  cannot tell {judgement.key}: {judgement.reason}"
    for judgement in by_verdict[Verdict.NO_BASELINE][:1]:
        yield f"  no baseline {judgement.key}: {judgement.reason}"


def sessions(results: Results) -> list[store.Session]:
    """What was measured, one session a fingerprint. Figures of tests that failed are left out."""
    failed = set(results.failed)
    found: dict[Fingerprint, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for record in results.records:
        if "fingerprint" not in record.data or record.nodeid in failed:
            continue
        data, kinds = record.data, found[Fingerprint.from_dict(record.data["fingerprint"])]
        if record.kind == "measurement":
            one = store.record(data["samples"], data["value"], group=data["group"], extra_info=data["more"])
            kinds["records"][data["key"]] = one
        elif record.kind == "count":
            kinds["counts"][data["key"]] = rules.Count(data["total"], data["parts"])
        elif record.kind == "conformance" and data["headroom"] is not None:
            kinds["ratios"][f"error/bound {data['kernel']}"] = data["headroom"]
    started, run = datetime.datetime.now(datetime.UTC), uuid.uuid4().hex
    commit = get_commit_info()  # type: ignore[no-untyped-call]
    return [
        store.Session(
            fingerprint, run, started, store.boot_id(), kinds["records"], kinds["counts"], kinds["ratios"], commit
        )
        for fingerprint, kinds in found.items()
    ]


def record(root: Path, results: Results) -> Iterator[str]:
    """Stores every session and says where. Raises BaselineError. Nothing is stored of a run in which a test failed."""
    if results.failed:
        yield "baselines: nothing recorded, since tests failed"
        return
    for session in sessions(results):
        path = store.write(root, session)
        figures = len(session.records) + len(session.counts) + len(session.ratios)
        yield f"baselines: {figures} figures recorded in {path.parent.name}/{path.name}"


def compare(root: Path, results: Results) -> Iterator[rules.Judgement]:
    """Every figure and count that has a baseline rule. Raises BaselineError for a baseline that cannot be read."""
    for session in sessions(results):
        past = store.load(root, session.fingerprint)
        keys = sorted(session.records, key=lambda key: _order(session.records[key].group))
        seen = [rules.Observation(key, session.records[key].value, store.history(past, key)) for key in keys]
        yield from rules.judge(seen)
        then: Mapping[str, rules.Count] = past[-1].counts if past else {}
        for key in dict.fromkeys((*session.counts, *then)):
            yield rules.judge_count(key, session.counts.get(key), then.get(key))


def near_misses(root: Path, results: Results) -> Iterator[str]:
    """For each device without a baseline, those that differ only in what an update changes."""
    for session in sessions(results):
        if store.load(root, session.fingerprint):
            continue
        for near in store.near_misses(root, session.fingerprint)[-1:]:
            changed = session.fingerprint.differences(near[-1].fingerprint)
            what = ", ".join(f"{name} was {theirs}" for name, (_, theirs) in changed.items())
            yield f"baselines: {len(near)} sessions of a near miss ({what}) are not compared with"


def _order(group: str | None) -> int:
    return GATED_FIRST.index(group) if group in GATED_FIRST else len(GATED_FIRST)


def worse(compared: list[rules.Judgement], strict: bool) -> list[rules.Judgement]:
    """Those that fail the run: WORSE, and under `strict` also those of which nothing can be told."""
    failing = {Verdict.WORSE} | ({Verdict.CANNOT_TELL, Verdict.NO_BASELINE} if strict else set())
    return [c for c in compared if c.verdict in failing]
