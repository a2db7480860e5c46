"""What is printed: the adapters that there are, the header, and a summary that fits a screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pytest_webgpu.report import implementations, mutants, paper, tables
from pytest_webgpu.report.results import Results

if TYPE_CHECKING:
    from pytest_webgpu.state import State

NOTES = 5  # of kernels that are right, in a summary that fits a screen


def adapters() -> list[str]:
    """For `--webgpu-list`: every implementation, and the adapters of those that are installed."""
    from pytest_webgpu.gpu.adapters import BROWSERS, MODULES, describe, list_adapters
    from pytest_webgpu.gpu.job import NoAdapter

    lines = []
    for implementation in (*MODULES, *BROWSERS[:-1]):  # the last waits for somebody to come
        try:
            found = list_adapters(implementation)
        except NoAdapter as error:
            lines.append(f"{implementation}: {error}")
            continue
        lines.append(f"{implementation}:" + ("" if found else " no adapter"))
        for adapter in found:
            lines += [f"  {describe(adapter)}", f"    features: {', '.join(adapter.info.features)}"]
            lines += [f"    {name}: {value}" for name, value in adapter.info.limits.items() if "compute" in name]
    return lines


def ops() -> list[str]:
    """For `--webgpu-ops`: each op as a kernel's author needs it, and what it computes."""
    from pytest_webgpu.ops.contract import all_ops

    lines = []
    for op in all_ops():
        numbers = [f"{s.name}={s.default:g}" if s.default is not None else s.name for s in op.scalars]
        given = ", ".join([*map(str, op.args), *op.sizes, *numbers])
        lines.append(f"{op.name}({given}) -> {', '.join(map(str, op.outputs))}")
        lines += [f"    {line}" for line in op.doc.splitlines()[:1]]
    return lines


def header(state: State) -> list[str]:
    """The adapter of each target that was asked for."""
    from pytest_webgpu.gpu.adapters import describe
    from pytest_webgpu.gpu.job import NoAdapter

    lines = []
    for target in state.targets:
        try:
            lines.append(f"webgpu: {describe(state.adapter(target))}")
        except NoAdapter as error:
            lines.append(f"webgpu: {error}")
    return lines or ["webgpu: no adapter of any backend"]


def summary(results: Results, width: int) -> list[str]:
    """The verdict, then what was found, in lines of at most `width` where that can be."""
    counts = ", ".join(f"{n} {what}" for what, n in results.outcomes.items())
    lines = [f"{results.verdict}: {counts}"]
    for device in tables.devices(results).rows:
        name, backend, implementation, driver, probes = device
        lines.append(f"on {name}, {backend}, {implementation}, {driver}; probes: {probes}")
    checked = tables.conformance(results)
    if checked.rows:
        kernels = [tuple(map(int, row[1].split("/"))) for row in checked.rows]
        right, total = (sum(column) for column in zip(*kernels, strict=True))
        cases = sum(int(row[2]) for row in checked.rows)
        held = f", {cases} cases" if cases else ""  # those of a kernel that is wrong are not counted
        lines.append(f"conformance: {right} of {total} kernels right{held}; largest error/bound by op:")
        lines += _flowing((f"{op} {share}" for op, _, _, share in checked.rows), width)
        lines += _remarks(results)
    lines += implementations.summary(results)
    for found in results.of("dispatch"):
        lines += _dispatch(found)
    lines += _kernels(results, width)
    for mine, other, ratio, interval, verdict in tables.races(results).rows:
        lines.append(f"{mine}: {ratio} [{interval}] of the time of {other}: {verdict}")
    for found in results.of("timeline"):
        driver = f", the driver's {found['driver_bytes'] / 1e6:.0f}" if found["driver_bytes"] else ""
        lines.append(f"timeline of a token of {found['title']}: {found['file']}, {found['dispatches']} dispatches; "
                     f"buffers took at most {found['peak_bytes'] / 1e6:.1f} MB{driver}")  # fmt: skip
    lines += [*_fusions(results), *_predictions(results)]
    lines += mutants.summary(results)
    for system, on, model, speed, first, count, weights, right in tables.generation(results).rows:
        counted = f", {count} dispatches a token, {weights} MB of weights, tokens {right or 'not checked'}"
        told = counted if count else f", on {on}"
        lines.append(f"{model}: {speed} tokens/s, first token {first} ms{told} ({system})")
    for s in results.of("swap"):
        lines.append(f"{s['model']} {s['dtype']} with {', '.join(s['kernels'])} in {s['steps']} of a token's steps: "
                     f"{1 / (s['before'] * s['ratio']):.1f} tokens/s, {1 / s['before']:.1f} without; a token takes "
                     f"{s['ratio']:.3f} [{s['low']:.3f}, {s['high']:.3f}] of the time: {tables.faster(s)}")  # fmt: skip
    lines += [f"skipped: {n} because {reason}" for reason, n in results.reasons.most_common(5)]
    return lines + results.notes


def _remarks(results: Results) -> list[str]:
    """What is to be known of kernels that are right; what their headers say themselves comes last."""
    every = [f"{found['kernel']}: {note}" for found in results.of("conformance") for note in found["notes"]]
    every = sorted(dict.fromkeys(every), key=lambda note: note.endswith("alone"))
    more = len(every) - NOTES
    return [f"  note: {note}" for note in every[:NOTES]] + (
        [f"  and {more} more notes, in a report: --webgpu-report"] if more > 0 else []
    )


def _dispatch(found: dict[str, Any]) -> list[str]:
    rows = {row["label"]: row for row in found["rows"]}
    base = rows["one-pass"]
    cost, low, high = (f"{base[key] * 1e6:.1f}" for key in ("b", "low", "high"))
    others = ", ".join(f"{rows[m]['b'] * 1e6:.1f} {m}" for m in ("pass-each", "submit-each") if m in rows)
    api = rows.get("one-pass, zero workgroups")
    lines = [
        f"a dispatch on {found['backend']}: {cost} us [{low}, {high}] in one pass, {others}"
        + (f"; the API's own share {api['b'] * 1e6:.1f}" if api else ""),
        f"  one dispatch and its wait, the figure people quote: {base['naive'] * 1e6:.0f} us, "
        f"{base['naive_ratio']:.0f} times the cost of a dispatch",
        f"  published ({paper.SHORT}, {found['implementation']}, total/100, a submit each): {_published(found)}",
    ]
    lines += [
        f"  {known['put'] * 1e6:.0f} us more put into each dispatch moved b by {known['share']:.1%} "
        f"of that ({known['label']}): {'found' if known['found'] else 'NOT FOUND'}"
        for known in found["known"]
    ]
    lines += [f"  warning: {text}" for text in found["warnings"]]
    if plain := found.get("unpolled"):
        lines.append(f"  completion is told on a timer of {plain['empty_wait'] * 1e3:.0f} ms, which the above polls "
                     "past; without that, total/100 of a submit each would be "
                     f"{plain['total_over_n']['submit-each'] * 1e6:.0f} us")  # fmt: skip
    return lines


def _kernels(results: Results, width: int) -> list[str]:
    """Of each op the kernel that uses most of what the adapter can do."""
    best: dict[str, float] = {}
    for found in results.of("kernel"):
        best[found["op"]] = max(best.get(found["op"], 0), found["share"])
    shown = (f"{op} {share:.0%}" for op, share in sorted(best.items()))
    title = "kernels at the shapes of Qwen2.5-0.5B, best share of the adapter's own copy bandwidth or flops:"
    return [title, *_flowing(shown, width)] if best else []


def _fusions(results: Results) -> list[str]:
    """Of each model the whole way from no fusion to the last level."""
    ladders: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for f in results.of("fusion"):
        ladders.setdefault((f["model"], f["dtype"], f["implementation"], f["backend"]), []).append(f)
    return [
        f"{' '.join(key[:2])}: {all_[0]['dispatches']} dispatches a token without fusions, {all_[-1]['dispatches']} "
        f"with {len(all_) - 1} of them: {gain['ratio']:.2f} [{gain['low']:.2f}, {gain['high']:.2f}] times as fast"
        for key, all_ in ladders.items()
        if (gain := all_[-1]["gain_on_none"])
    ]


def _predictions(results: Results) -> list[str]:
    """The cost model's errors where each kernel was timed by itself: without fusions and with all."""
    return [
        f"cost model, {f['model']} {f['dtype']}, {f['dispatches']} dispatches: {1e3 * f['measured']:.3g} ms a token; "
        + ", ".join(f"{way} {1e3 * one['predicted']:.3g} ({one['error']:+.0%})" for way, one in f["ways"].items())
        for f in results.of("prediction")
        if "kernels" in f["ways"]
    ]


def _published(found: dict[str, Any]) -> str:
    rows = paper.published()["dispatch_us"]["rows"]
    same = [r for r in rows if r["implementation"] == found["implementation"] and "artefact" not in r]
    return ", ".join(f"{row['sequential']:g} us on {row['adapter']}" for row in same) or "none"


def _flowing(cells: Iterable[str], width: int) -> list[str]:
    """Behind each other, so that forty ops take a third of a screen; no cell is broken."""
    text = ", ".join(cell.replace(" ", "\0") for cell in cells)
    lines = textwrap.wrap(text, max(width, 40), initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]
