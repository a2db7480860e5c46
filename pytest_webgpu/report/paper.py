"""The paper's tables with ours in the same rows: `python -m pytest_webgpu.report.paper report.json ...`

The reports are those of `--webgpu-report=report.json`. Where ours is another thing than the paper's (another wait,
another count of tokens, a cache), the row says so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_webgpu import resources
from pytest_webgpu.report.tables import Table

Finding = Mapping[str, Any]
PUBLISHED = "published/arxiv-2604.02344.json"
SHORT = "arXiv 2604.02344"
PHASES = {"encoder_create": "encoder", "pass_begin": "pass-begin", "set_pipeline": "set-pipeline",
          "set_bind_group": "set-bind-group", "dispatch": "dispatch", "pass_end": "pass-end",
          "encoder_finish": "finish", "submit": "submit"}  # fmt: skip
OURS = "this machine"
PAPER = "paper"


def published() -> dict[str, Any]:
    """The paper's figures, as read for baselines/published."""
    data: dict[str, Any] = json.loads((resources.folder("baselines") / PUBLISHED).read_text())
    return data


def paper_tables(findings: Iterable[Finding], paper: Mapping[str, Any]) -> Iterator[Table]:
    """Dispatch costs, phases, fusion gains, end to end, kernels: the paper's rows, then ours.

    `findings` are a report's: of kind "dispatch", "fusion", "generation" and "kernel", as the suites record them.
    """
    by_kind: dict[str, list[Finding]] = {"dispatch": [], "generation": [], "kernel": [], "fusion": [], "control": []}
    for finding in findings:
        if finding["kind"] in by_kind:
            by_kind[finding["kind"]].append(finding)
    yield _dispatch(paper, by_kind["dispatch"])
    yield _phases(paper, by_kind["dispatch"])
    yield _fusion(paper, by_kind["fusion"])
    yield _control(paper, by_kind["control"])
    yield _end_to_end(paper, by_kind["generation"])
    yield _kernels(paper, by_kind["kernel"])


def _place(row: Mapping[str, Any]) -> str:
    parts = (row.get("implementation"), row.get("version"), row.get("backend"), row.get("adapter"))
    return ", ".join(str(p) for p in parts if p)


def _dispatch(paper: Mapping[str, Any], ours: Sequence[Finding]) -> Table:
    rows = []
    for row in paper["dispatch_us"]["rows"]:
        remarks = [f"artefact: {row['artefact']}"] if "artefact" in row else []
        remarks += [row["note"]] if "note" in row else []
        if row["implementation"] == "wgpu-native":
            remarks.append("single without the wait")
        rows.append((PAPER, _place(row), f"{row['single']:g}", f"{row['sequential']:g}", "", "", "; ".join(remarks)))
    for found in ours:
        figures = {r["label"]: r for r in found["rows"]}
        for label in ("submit-each", "pass-each", "one-pass"):
            if label not in figures:
                continue
            one = figures[label]
            n, quotient = one["total_over_n"]
            remark = label + ("" if label == "submit-each" else ": not the paper's submit a dispatch")
            remark += f"; total over N = {n}" if n != 100 else ""
            remark += "; software adapter" if found["software"] else ""
            b = f"{_us(one['b'])} [{_us(one['low'])}, {_us(one['high'])}]"
            rows.append((OURS, _place(found), _us(one["naive"]), _us(quotient), b, _us(one["a"]), remark))
    note = "single: one dispatch and its wait. total/N holds a share of the wait; b, the slope, does not"
    columns = ("whose", "where", "single us", "total/100 us", "b us [95 %]", "a us", "remark")
    return Table("What a dispatch costs", columns, rows, note)


def _phases(paper: Mapping[str, Any], ours: Sequence[Finding]) -> Table:
    theirs = paper["phases_us"]
    rows = [(PAPER, _place(theirs), *(f"{theirs[name]:g}" for name in PHASES))]
    rows += [(OURS, _place(f), *(_us(f["phases"][name]["value"]) for name in PHASES.values())) for f in ours]
    return Table("Phases of a dispatch, us", ("whose", "where", *PHASES), rows, "the wait is in neither")


def _fusion(paper: Mapping[str, Any], ours: Sequence[Finding]) -> Table:
    theirs = paper["fusion"]
    rows = [
        (PAPER, f"{theirs['model']}, {_place(theirs)}", row["fusion"], "", f"{row['tok_s']:g}", f"{row['ttft_ms']:g}",
         "no KV cache; tokens of prompt and answer together")
        for row in theirs["rows"]
    ]  # fmt: skip
    for f in ours:
        gain = f["gain"]
        p = f"p {gain['p']:.2g} against the row above; " if gain else ""
        each = f["token_seconds"]
        together = (f["prompt_tokens"] + f["new_tokens"]) / (f["first_token_seconds"] + (f["new_tokens"] - 1) * each)
        rows.append((OURS, f"{f['model']} {f['dtype']}, {_place(f)}", f["level"], str(f["dispatches"]),
                     f"{together:.1f}", f"{1e3 * f['first_token_seconds']:.1f}", p + _remark(f)))  # fmt: skip
    note = theirs["operations"]["note"] + "; ours are dispatches as issued"
    return Table("Fusion", ("whose", "what", "fusions", "dispatches", "tok/s", "first token ms", "remark"), rows, note)


def _control(paper: Mapping[str, Any], ours: Sequence[Finding]) -> Table:
    theirs = paper["fusion"]["cuda_control"]
    eager, fused = theirs["rms_norm_eager_us"], theirs["rms_norm_compiled_us"]
    rows = [(PAPER, "rms_norm", theirs["adapter"], f"{eager:g}", f"{fused:g}", f"{eager / fused:.2f}", theirs["note"])]
    for f in ours:
        gain = f["gain"]
        told = f"{gain['ratio']:.2f} [{gain['low']:.2f}, {gain['high']:.2f}]"
        rows.append((OURS, f["op"], f["adapter"], _us(f["eager"]), _us(f["fused"]), told, f"p {gain['p']:.2g}"))
    columns = ("whose", "op", "where", "eager us", "compiled us", "times as fast", "remark")
    return Table("Fusion on CUDA, the control", columns, rows, "ours: a call by the slope, the wait not in it")


def _end_to_end(paper: Mapping[str, Any], ours: Sequence[Finding]) -> Table:
    rows = []
    for row in paper["end_to_end"]["rows"]:
        cache = {True: "KV cache", False: "no KV cache", None: ""}[row.get("kv_cache")]
        what = f"{row['system']}, {row['model']} {row.get('dtype', '')}".rstrip()
        first = f"{row['ttft_ms']:g}" if "ttft_ms" in row else ""
        rows.append((PAPER, what, _place(row), f"{row['tok_s']:g}", "", first, cache))
    for f in ours:
        fusions = f", fusions {f['fusions']}" if "fusions" in f else ""  # transformers, beside ours, has none
        what = f"{f.get('system', 'pytest-webgpu')}, {f['model']} {f['dtype']}{fusions}"
        decode = f"{(f['new_tokens'] - 1) / f['decode_seconds']:.1f}" if f["decode_seconds"] else ""
        rows.append(
            (OURS, what, _place(f), f"{_together(f):.1f}", decode, f"{1e3 * f['prefill_seconds']:.1f}", _remark(f))
        )
    note = (
        paper["end_to_end"]["unit"]
        + "; decode is all but the first new token over their own time, which the paper does not give"
    )
    return Table(
        "End to end", ("whose", "what", "where", "tok/s", "decode tok/s", "first token ms", "remark"), rows, note
    )


def _kernels(paper: Mapping[str, Any], ours: Sequence[Finding]) -> Table:
    rows = [
        (PAPER, f"{row['op']} {row['m']} x {row['k']} x {row['n']}", row["dtype"], row["adapter"],
         f"{row['tflop_s']:g}", "", row.get("note", ""))
        for row in paper["kernels"]
    ]  # fmt: skip
    rows += [
        (OURS, f["key"], f["dtype"], _place(f), f"{1e-12 * f['flops_per_second']:.3g}",
         f"{f['share']:.0%} of the {f['limit']}", "the kernel alone, nothing read back")
        for f in ours
    ]  # fmt: skip
    return Table("Kernels", ("whose", "kernel", "dtype", "where", "TFLOP/s", "share", "remark"), rows)


def _together(f: Finding) -> float:
    """Tokens a second as the paper counts them: prompt and answer over the whole time."""
    return float((f["prompt_tokens"] + f["new_tokens"]) / (f["prefill_seconds"] + f["decode_seconds"]))


def _remark(f: Finding) -> str:
    return f"KV cache; prompt of {f['prompt_tokens']}, {f['new_tokens']} new (paper: 5, 50)"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description="The paper's tables with this machine's figures beside them.")
    parser.add_argument("reports", nargs="*", type=Path, help="what --webgpu-report=FILE.json wrote")
    findings = [f for path in parser.parse_args().reports for f in json.loads(path.read_text())["findings"]]
    for table in paper_tables(findings, published()):
        print(f"\n{table.title}" + (f" ({table.note})" if table.note else ""))
        cells = [table.columns, *table.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
        for row in cells:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
