"""How well the checks of each op tell a fault: mutants killed, and each survivor as a diff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import Table

COLUMNS = ("op", "kernels", "faults", "told", "share", "least", "equivalent", "refused")


def table(results: Results) -> Table:
    """By op. `least`: the share of the kernel whose faults are told worst."""
    by_op: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for found in results.of("mutants"):
        by_op[found["op"]].append(found)
    rows = [(op, *_row(kernels)) for op, kernels in sorted(by_op.items())]
    if len(rows) > 1:
        rows.append(("all", *_row(results.of("mutants"))))
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


def _row(kernels: list[dict[str, Any]]) -> tuple[str, ...]:
    told, missed = [k["killed"] for k in kernels], [len(k["survivors"]) for k in kernels]
    shares = [t / (t + m) for t, m in zip(told, missed, strict=True) if t + m]
    faults = sum(told) + sum(missed)
    return (
        str(len(kernels)), str(faults), str(sum(told)), f"{sum(told) / faults:.1%}" if faults else "none",
        f"{min(shares):.1%}" if shares else "none", *(str(sum(k[n] for k in kernels)) for n in COLUMNS[-2:]),
    )  # fmt: skip
