"""The findings as tables: a title, the columns' names, and rows of text. Every report shows these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_webgpu.report.results import Results


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def all_tables(results: Results) -> Iterable[Table]:
    """Those that have rows, in the order in which a reader wants them."""
    from pytest_webgpu.report import dispatch_tables, gate, mutants  # these are made of this module's Table
    from pytest_webgpu.report.implementations import differences

    checked = (devices, conformance, mutants.table, differences)
    timed = (*dispatch_tables.ALL, kernels, races, fusions, predictions, batches, generation)
    for make in (gate.changed, *checked, *timed):
        table = make(results)
        if table.rows:
            yield table


def devices(results: Results) -> Table:
    rows = [
        (
            d["adapter"] + (" (software)" if d["software"] else ""),
            d["backend"],
            f"{d['implementation']} {d['version']}",
            d["driver"],
            "; ".join(d["findings"]) or "healthy",
        )
        for d in results.of("device")
    ]
    return Table("Adapters", ("adapter", "backend", "implementation", "driver", "probes"), rows)


def conformance(results: Results) -> Table:
    """By op: kernels right of kernels checked, cases, and the largest share of its bound that an element used."""
    by_op: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for found in results.of("conformance"):
        by_op[found["op"]].append(found)
    rows = []
    for op, kernels in sorted(by_op.items()):
        right = sum(f["passed"] for f in kernels)
        shares = [f["headroom"] for f in kernels if f["headroom"] is not None]
        cases = sum(f["cases"] for f in kernels)
        share = f"{max(shares):.2f}" if shares else "exact" if right else "-"
        state = " WRONG" if any(f["wrong"] for f in kernels) else " not checked" if right < len(kernels) else ""
        rows.append((op, f"{right}/{len(kernels)}", str(cases), f"{share}{state}"))
    note = "error/bound: the largest error of an element, as a share of what a correct kernel may make"
    return Table("Conformance", ("op", "right", "cases", "error/bound"), rows, note)


def kernels(results: Results) -> Table:
    """Time, and share of the slower of the adapter's copy bandwidth and multiply-add rate."""
    rows = [
        (
            f["key"],
            device_name(f),
            f"{f['seconds'] * 1e6:.1f}",
            f"{f['share']:.0%} of {f['limit']}",
            f"{f['bytes_per_second'] / 1e9:.3g}",
            f"{f['flops_per_second'] / 1e9:.3g}",
        )
        for f in results.of("kernel")
    ]
    return Table("Kernels", ("kernel", "on", "us", "share", "GB/s", "GFLOP/s"), rows)


def races(results: Results) -> Table:
    """Paired comparisons: time over the other's."""
    rows = [
        (f["mine"], f["other"], f"{f['ratio']:.3f}", f"{f['low']:.3f} to {f['high']:.3f}", faster(f))
        for f in results.of("race")
    ]
    return Table("Against other kernels", ("kernel", "other", "time/other's", "95 % interval", "verdict"), rows)


def faster(race: dict[str, Any]) -> str:
    """A paired comparison's verdict in a word."""
    if race["faster"]:
        return "faster"
    verdict = str(race["verdict"])
    return {"worse": "slower", "not worse": "not slower"}.get(verdict, verdict)


GAINS = {"worse": "faster", "not worse": "no gain above 3 %", "cannot tell": "cannot tell"}  # of the level before


def fusions(results: Results) -> Table:
    """A model with each fusion added in turn: dispatches as issued, and the time against the level before, paired."""
    rows = []
    for f in results.of("fusion"):
        gain, on_none, each = f["gain"], f["gain_on_none"], f["seconds_a_dispatch"]
        rows.append(
            (
                f"{f['model']} {f['dtype']}",
                device_name(f),
                f["level"],
                str(f["dispatches"]),
                f"{1 / f['token_seconds']:.1f}",
                f"{1e3 * f['first_token_seconds']:.1f}",
                f"{_times(gain)}, p {gain['p']:.2g}: {GAINS[gain['verdict']]}" if gain else "",
                _times(on_none) if on_none else "",
                f"{1e6 * each:.1f}" if each is not None else "",
                f"{f['apart'] / f['allowed']:.2g}",
            )
        )
    columns = ("model", "on", "fusions", "dispatches a token", "tokens/s", "first token, ms", "gain on the level above",
               "gain on none", "us a dispatch saved", "logits apart/allowed")  # fmt: skip
    return Table("Fusions", columns, rows, "gain: times as fast, with its 95 % interval, by paired rounds")


def _times(gain: dict[str, Any]) -> str:
    return f"{gain['ratio']:.3f} [{gain['low']:.3f}, {gain['high']:.3f}]"


def predictions(results: Results) -> Table:
    """A token's time by the cost model, three ways, and what it takes. The error: predicted over measured, less 1."""
    rows = []
    for f in results.of("prediction"):
        told = [
            f"{1e3 * one['predicted']:.3g} ({one['error']:+.0%})" if (one := f["ways"].get(way)) else ""
            for way in ("sum", "overlapped", "kernels")
        ]
        what = (f"{f['model']} {f['dtype']}", device_name(f), f["level"], str(f["dispatches"]))
        rows.append((*what, f"{f['bytes'] / 1e6:.3g}", f"{1e3 * f['measured']:.3g}", *told))
    columns = ("model", "on", "fusions", "dispatches", "MB", "measured, ms", "parts added up, ms",
               "host or device, ms", "the same by kernels, ms")  # fmt: skip
    notes = dict.fromkeys(f"{device_name(f)}: {f['parts']}" for f in results.of("prediction"))
    return Table("Cost model", columns, rows, "; ".join(notes))


def batches(results: Results) -> Table:
    """Steps of more and more rows: from how many on kernels take longer than dispatches."""
    rows = [
        (
            f"{f['model']} {f['dtype']}",
            device_name(f),
            str(step["rows"]),
            str(step["dispatches"]),
            f"{1e3 * step['seconds']:.3g}",
            f"{step['of_dispatches'] / step['seconds']:.0%}",
            f"{1e3 * step['predicted']:.3g}",
        )
        for f in results.of("batch")
        for step in f["steps"]
    ]
    columns = ("model", "on", "rows", "dispatches", "a step, ms", "of that dispatches at b", "predicted, ms")
    notes = [
        f"{f['model']} {f['dtype']} on {device_name(f)}: kernels outweigh dispatches from {f['predicted']} rows on "
        f"by the cost model, from {f['measured']} on as measured"
        for f in results.of("batch")
    ]
    return Table("Batch", columns, rows, "; ".join(notes))


def generation(results: Results) -> Table:
    """Tokens a second, time to first token, and dispatches a token as they were issued; other systems beside."""
    agreed = {(a["model"], a["dtype"], a["fusions"]): a for a in results.of("agreement")}
    rows = []
    for found in results.of("generation"):
        agreement = agreed.get((found["model"], found["dtype"], found.get("fusions")))
        rows.append(
            (
                found["system"] + (f", fusions {found['fusions']}" if "fusions" in found else ""),
                device_name(found),
                f"{found['model']} {found['dtype']}",
                f"{(found['new_tokens'] - 1) / found['decode_seconds']:.1f}",
                f"{found['prefill_seconds'] * 1e3:.0f}",
                str(found.get("dispatches_per_token", "")),
                f"{found['weight_bytes'] / 1e6:.1f}" if "weight_bytes" in found else "",
                "" if agreement is None else f"{'right' if agreement['ok'] else 'WRONG'} ({agreement['ratio']:.2f})",
            )
        )
    columns = ("system", "on", "model", "tokens/s", "first token, ms", "dispatches a token", "weights, MB", "tokens")
    note = "tokens: in brackets the logits' distance from float64 as a multiple of transformers' own; 4 is allowed"
    return Table("Qwen2.5", columns, rows, note)


def device_name(found: dict[str, Any]) -> str:
    what = (found.get("implementation"), found.get("backend"), "software" if found.get("software") else None)
    named = ", ".join(w for w in what if w)
    return f"{found['adapter']} ({named})" if named else str(found["adapter"])
