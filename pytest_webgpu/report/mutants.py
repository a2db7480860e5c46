"""How well the checks of each op tell a fault: mutants killed, and each survivor as a diff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import Table

COLUMNS = ("op", "kernels", "faults", "told", "share", "least", "equivalent", "refused")


def totals(results: Results) -> dict[str, dict[str, Any]]:
    """By op, then of all where there are several: counts of kernels, faults, told, equivalent and refused mutants;
    `share` of the faults told, and `least` of those of one kernel (None where none is a fault)."""
    by_op: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for found in results.of("mutants"):
        by_op[found["op"]].append(found)
    made = {op: _total(kernels) for op, kernels in sorted(by_op.items())}
    if len(made) > 1:
        made["all"] = _total(results.of("mutants"))
    return made


def table(results: Results) -> Table:
    """By op. `least`: the share of the kernel whose faults are told worst."""
    rows = [(op, *map(_cell, total.values())) for op, total in totals(results).items()]
    note = "equivalent: changes nothing, by equivalent.toml; refused: no compiler takes it; neither counts"
    return Table("Faults made in kernels, and told by the checks", COLUMNS, rows, note)


def summary(results: Results) -> Iterator[str]:
    """The table as lines, then the faults that no check told."""
    made = table(results)
    if not made.rows:
        return
    yield f"{made.title} ({made.note}):"
    widths = [max(len(row[i]) for row in (COLUMNS, *made.rows)) for i in range(len(COLUMNS))]
    for row in (COLUMNS, *made.rows):
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  " + "  ".join((row[0].ljust(len(first)), *rest))
    for found in results.of("mutants"):
        for survivor in found["survivors"]:
            yield f"  not told: {survivor['name']}"
            yield from (f"    {line}" for line in survivor["diff"].splitlines()[3:])


def _total(kernels: list[dict[str, Any]]) -> dict[str, Any]:
    told, missed = [k["killed"] for k in kernels], [len(k["survivors"]) for k in kernels]
    shares = [t / (t + m) for t, m in zip(told, missed, strict=True) if t + m]
    faults = sum(told) + sum(missed)
    counts = len(kernels), faults, sum(told), sum(told) / faults if faults else None, min(shares, default=None)
    return dict(zip(COLUMNS[1:], (*counts, *(sum(k[n] for k in kernels) for n in COLUMNS[-2:])), strict=True))


def _cell(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}" if isinstance(value, float) else str(value)
