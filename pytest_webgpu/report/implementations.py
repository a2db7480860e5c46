"""The same kernels on several implementations: where they differ, and what a compiler refuses that another takes."""

from __future__ import annotations

from typing import Any

from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import Table

SHOWN = 10  # differences in the summary; the reports have all


def by_kernel(results: Results) -> tuple[list[str], dict[str, dict[str, dict[str, Any]]]]:
    """The places where kernels were checked, and {kernel: {place: finding}}. A place is an implementation, with its
    backend where an implementation ran on several."""
    found = results.of("conformance") + results.of("lacking")
    backends: dict[str, set[str]] = {}
    for f in found:
        backends.setdefault(f["implementation"], set()).add(f["backend"])
    kernels: dict[str, dict[str, dict[str, Any]]] = {}
    places: dict[str, None] = {}
    for f in found:
        several = len(backends[f["implementation"]]) > 1
        place = f"{f['implementation']}, {f['backend']}" if several else f["implementation"]
        places[place] = None
        kernels.setdefault(f["kernel"], {})[place] = f
    return list(places), kernels


def differences(results: Results) -> Table:
    """Kernel x implementation: the largest error as a share of its bound, or what came instead."""
    places, kernels = by_kernel(results)
    rows = []
    if len(places) > 1:
        for kernel, found in sorted(kernels.items()):
            rows.append((kernel, *(_cell(found.get(place)) for place in places)))
    note = "the largest error of an element as a share of its bound, or what came instead; - was not run"
    return Table("Kernels by implementation", ("kernel", *places), rows, note)


def portability(results: Results) -> list[str]:
    """A sentence for each kernel that comes out differently, with what the compilers said of it."""
    places, kernels = by_kernel(results)
    lines = []
    for kernel, found in sorted(kernels.items()):
        verdicts = {place: _verdict(found[place]) for place in places if place in found}
        if len(set(verdicts.values()) - {"lacking"}) > 1:
            told = ", ".join(f"{verdict} on {place}" for place, verdict in verdicts.items() if verdict != "lacking")
            refusals = [f"{p}: {said.splitlines()[0]}" for p in verdicts if (said := found[p].get("refused"))]
            lines.append("\n    ".join([f"{kernel}: {told}", *refusals]))
    return lines


def summary(results: Results) -> list[str]:
    """For the end of a run on several implementations; nothing for a run on one."""
    places, kernels = by_kernel(results)
    if len(places) < 2:
        return []
    lines = ["kernels by implementation:"]
    for place in places:
        verdicts = [_verdict(found[place]) for found in kernels.values() if place in found]
        right, lacking = verdicts.count("right"), verdicts.count("lacking")
        skipped = f", {lacking} need a feature that it lacks" if lacking else ""
        lines.append(f"  {place}: {right} of {len(verdicts) - lacking} right{skipped}")
    differing = portability(results)
    if not differing:
        return [*lines, "  no kernel is right on one and wrong or refused on another"]
    lines += [f"  {line}" for line in differing[:SHOWN]]
    if len(differing) > SHOWN:
        lines.append(f"  and {len(differing) - SHOWN} more that differ: --webgpu-report=FILE.md has them all")
    return lines


def _verdict(found: dict[str, Any]) -> str:
    if "features" in found:
        return "lacking"
    return "right" if found["passed"] else "refused" if found["refused"] else "wrong"


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    verdict = _verdict(found)
    if verdict == "lacking":
        return f"no {', '.join(found['features'])}"
    if verdict == "right":
        return "exact" if found["headroom"] is None else f"{found['headroom']:.2f}"
    return verdict.upper()
