"""For GitHub Actions: a step summary with the verdict first, and annotations that point into .wgsl files.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands says how both are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_webgpu.report import gate
from pytest_webgpu.report.markdown import row
from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import devices

MOST_ANNOTATIONS = 10  # of a kind and step, GitHub shows no more
MOST_BYTES = 1 << 20  # a step's summary; what is longer is not shown at all
FAILURES = 20
HOW = "To make one, once for counts and in three sittings (boots or hours apart) for times: `--webgpu-update-baselines`"


def write(results: Results, environment: Mapping[str, str]) -> list[str]:
    """Appends to the step's summary where there is one; the annotations, as lines to print, on GitHub alone.

    Raises OSError where the summary cannot be written.
    """
    if path := environment.get("GITHUB_STEP_SUMMARY"):
        there = Path(path).stat().st_size if Path(path).is_file() else 0
        with open(path, "a", encoding="utf-8") as file:
            file.write(summary(results, MOST_BYTES - there - 1))
    if environment.get("GITHUB_ACTIONS") != "true":
        return []
    return list(commands(results, Path(environment.get("GITHUB_WORKSPACE") or ".")))


def summary(results: Results, most: int = MOST_BYTES - 1) -> str:
    """Markdown of at most `most` bytes: the verdict, what changed, what failed, where it ran."""
    outcomes = ", ".join(f"{n} {what}" for what, n in results.outcomes.items())
    judged = gate.counted(results)
    lines = [f"## WebGPU: {gate.verdict(results)}", "", "; ".join(filter(None, (judged, outcomes)))]
    table = gate.changed(results)
    if table.rows:
        lines += ["", row(table.columns), row(("---",) * len(table.columns)), *map(row, table.rows)]
        lines += ["", table.note] if table.note else []
    if any(j["verdict"] == "no baseline" for j in results.of("judgement")):
        lines += ["", HOW]
    if results.failed:
        lines += ["", "Failed:", ""]
        lines += [f"- `{test}`: {results.first_line(test)}" for test in results.failed[:FAILURES]]
        lines += [f"- and {len(results.failed) - FAILURES} more"] if len(results.failed) > FAILURES else []
    lines += [""] + [f"- {n} skipped: {reason}" for reason, n in results.reasons.most_common(5)]
    for name, backend, implementation, driver, probes in devices(results).rows:
        lines += ["", f"On {name}, {backend}, {implementation}, {driver}; probes: {probes}"]
    return _cut("\n".join(lines) + "\n\n", most)


def _cut(text: str, most: int) -> str:
    if len(text.encode()) <= most:
        return text
    end = "\n\nCut: --webgpu-report=FILE.md has it whole.\n"
    kept = text.encode()[: max(0, most - len(end))].decode(errors="ignore")
    return (kept.rpartition("\n")[0] + end)[: max(0, most)]


def commands(results: Results, workspace: Path) -> Iterator[str]:
    """At most ten workflow commands, those that point into a file first."""
    found = sorted(_findings(results), key=lambda f: _inside(f["file"], workspace) is None)
    seen = list(dict.fromkeys(_command(f, _inside(f["file"], workspace)) for f in found))
    yield from seen[:MOST_ANNOTATIONS]


def _findings(results: Results) -> Iterator[dict[str, Any]]:
    """What failed and where: level, title, text, file, line."""
    failed = set(results.failed)
    for record in results.records:
        data, level = record.data, "error" if record.nodeid in failed else "warning"
        place = {"level": level, "file": data.get("file"), "line": data.get("line")}
        if record.kind == "conformance" and not data["passed"]:
            text = data["refused"] or results.first_line(record.nodeid) or "it does not compute what its op says"
            yield {**place, "title": f"{data['kernel']} is wrong", "text": text}
        elif record.kind == "judgement" and data["verdict"] == "worse":
            yield {**place, "title": f"REGRESSED {data['key']}", "text": f"{data['ratio']:.3f} of its baseline: "
                   f"{data['reason']}" if data["ratio"] is not None else data["reason"]}  # fmt: skip
        elif record.kind == "race" and data["against"] and data["verdict"] == "worse":
            text = f"{data['ratio']:.3f} [{data['low']:.3f}, {data['high']:.3f}] of what {data['other']} takes"
            yield {**place, "title": f"REGRESSED {data['mine']}", "text": text}


def _inside(file: str | None, workspace: Path) -> str | None:
    """The path from the workspace's root; None for what is not in it, which GitHub cannot show."""
    if file is None:
        return None
    try:
        return Path(file).resolve().relative_to(workspace.resolve()).as_posix()
    except ValueError:
        return None


def _command(finding: Mapping[str, Any], file: str | None) -> str:
    properties = {"file": file, "line": finding["line"]} if file else {}
    told = ",".join(f"{k}={_property(str(v))}" for k, v in {**properties, "title": finding["title"]}.items())
    return f"::{finding['level']} {told}::{_text(finding['text'])}"


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
