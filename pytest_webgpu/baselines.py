"""What a run measured, recorded as baselines (`--webgpu-update-baselines`), and what judging it came to."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_benchmark.utils import get_commit_info

from pytest_webgpu import gating, options
from pytest_webgpu.gate import rules, store
from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.gate.past import Past, changes
from pytest_webgpu.performance.canary import KEY as CANARY
from pytest_webgpu.performance.stats import Verdict
from pytest_webgpu.report.results import Results

SHOWN = {Verdict.WORSE: 8, Verdict.CANNOT_TELL: 3, Verdict.NO_BASELINE: 1}  # of each, in the summary


def finish(results: Results, settings: options.Settings, root: Path) -> bool:
    """Records what was measured, as the settings say; the lines for the summary go to `results.notes`.

    Returns whether the run fails by it although no test did: a baseline could not be read or written.
    """
    errors = [found["text"] for found in results.of("baseline-error")]
    results.notes += told(results)
    try:
        if settings["gate"] != "off":
            results.notes += near_misses(root, results, settings["accept-near-miss"])
        if settings["update-baselines"]:
            results.notes += record(root, results, options.processes(settings))
    except store.BaselineError as error:
        errors.append(str(error))
    results.notes += [f"baselines: ERROR {text}" for text in dict.fromkeys(errors)]
    return bool(errors)


def told(results: Results) -> Iterator[str]:
    """How many of each verdict there are, and those that a reader has to know of."""
    judged = results.of("judgement")
    by_verdict = {v: [j for j in judged if j["verdict"] == v.value] for v in Verdict}
    listed = sum(j["verdict"] == "listed" for j in judged)
    counted = [f"{len(those)} {v.value}" for v, those in by_verdict.items() if those]
    if judged:
        yield f"baselines: {', '.join(counted + ([f'{listed} listed'] if listed else []))}"
    for verdict, most in SHOWN.items():
        for judgement in by_verdict[verdict][:most]:
            named = {**judgement, **{k: judgement["fingerprint"][k] for k in ("model", "dtype")}}
            yield f"  {gating.NAMES[verdict]} {gating.tell(named)}"


def sessions(results: Results, processes: int = 1) -> list[store.Session]:
    """What was measured, one session a fingerprint. Figures of tests that failed are left out."""
    failed, canary = set(results.failed), [found["seconds"] for found in results.of("canary")]
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
        elif record.kind == "conformance" and data["passed"]:
            kinds["ratios"][gating.headroom_key(data["kernel"], data["cases"])] = data["headroom"] or 0.0
    for kinds in found.values():
        if kinds["records"] and canary:
            kinds["records"][CANARY] = store.record(canary, group=CANARY)
    started, run = datetime.datetime.now(datetime.UTC), uuid.uuid4().hex
    commit = get_commit_info()  # type: ignore[no-untyped-call]
    return [
        store.Session(
            fingerprint, run, started, store.boot_id(), kinds["records"], kinds["counts"], kinds["ratios"], commit,
            processes,
        )
        for fingerprint, kinds in found.items()
    ]


def record(root: Path, results: Results, processes: int) -> Iterator[str]:
    """Stores every session and says where. Raises BaselineError. Nothing is stored of a run in which a test failed."""
    if results.failed:
        yield "baselines: nothing recorded, since tests failed"
        return
    for session in sessions(results, processes):
        path = store.write(root, session)
        figures = len({*session.records} - {CANARY}) + len(session.counts) + len(session.ratios)
        yield f"baselines: {figures} figures recorded in {path.parent.name}/{path.name}"


def near_misses(root: Path, results: Results, accepted: bool) -> Iterator[str]:
    """For each device without a baseline, those that differ only in what an update changes."""
    past = Past(root)
    for session in sessions(results):
        near = past.near(session.fingerprint) if not past.own(session.fingerprint) else []
        if near:
            what = changes(session.fingerprint, near[-1].fingerprint)
            how = "were compared with" if accepted else "are not compared with: --webgpu-accept-near-miss does"
            yield f"baselines: {len(near)} sessions of a near miss ({what}) {how}"
