"""What a dispatch costs, as tables: the lines, their parts, transfers, and whether a known cost was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import Table, device_name

UNITS = (("MB", 1 << 20), ("KB", 1 << 10), ("B", 1))


def costs(results: Results) -> Table:
    """T(N) = a + b N by mode, in microseconds, and the figures that people know: one dispatch, and a total over N."""
    rows = [
        (
            device_name(found),
            row["label"],
            f"{row['b'] * 1e6:.1f} [{row['low'] * 1e6:.1f}, {row['high'] * 1e6:.1f}]",
            f"{row['cv']:.0%}",
            f"{row['floor'] * 1e6:.1f}",
            f"{row['a'] * 1e6:.0f} [{row['a_low'] * 1e6:.0f}, {row['a_high'] * 1e6:.0f}]",
            f"{row['naive'] * 1e6:.0f} ({row['naive_ratio']:.1f} x b)",
            f"{row['total_over_n'][1] * 1e6:.1f} (N = {row['total_over_n'][0]})",
        )
        for found in results.of("dispatch")
        for row in found["rows"]
    ]
    columns = ("adapter", "mode", "dispatch b, us [95 %]", "CV", "floor, us", "wait a, us [95 %]", "single op, us",
               "total/N, us")  # fmt: skip
    notes = [f"{device_name(found)}: {text}" for found in results.of("dispatch") for text in found["warnings"]]
    return Table("Cost of a dispatch", columns, rows, "; ".join(notes))


def parts(results: Results) -> Table:
    """Waits, the phases of a dispatch, and the making of objects, in microseconds."""
    rows = []
    for found in results.of("dispatch"):
        where = device_name(found)
        rows.append((where, f"empty wait ({found['fence']})", _us(found["empty_wait"])))
        rows.append((where, "read back of 4 bytes", _us(found["read_back"])))
        rows.append((where, "step of the clock", f"{found['clock_step'] * 1e6:.3g}"))
        if found["device_time"]:
            rows.append((where, "a dispatch by the device's timestamps", _us(found["device_time"])))
        for name, each in found["phases"].items():
            label = "one dispatch timed whole" if name == "whole" else f"phase: {name}"
            rows.append((where, label, _us(each)))
        rows.append((where, "phases together", f"{found['phase_sum'] * 1e6:.3g}"))
        rows += [(where, f"{name} created", _us(each)) for name, each in found["creation"].items()]
    return Table("Parts of a dispatch", ("adapter", "what", "us [95 %]"), rows)


def transfers(results: Results) -> Table:
    """Writes (with the wait for them) and reads by size."""
    rows = [
        (
            device_name(found),
            _size(t["size"]),
            _us(t["write"]),
            _us(t["read"]),
            f"{t['size'] / t['write']['value'] / 1e9:.3g}",
            f"{t['size'] / t['read']['value'] / 1e9:.3g}",
        )
        for found in results.of("dispatch")
        for t in found["transfers"]
    ]
    columns = ("adapter", "size", "write and wait, us [95 %]", "read, us [95 %]", "written GB/s", "read GB/s")
    return Table("Transfers", columns, rows)


def known_costs(results: Results) -> Table:
    """A delay put into each dispatch, and how far b and a moved."""
    rows = [
        (
            device_name(found),
            m["label"],
            f"{m['put'] * 1e6:.1f}",
            f"{m['b'] * 1e6:.1f}",
            f"{m['share']:.1%}",
            f"{m['by_rounds']['value']:.1%} [{m['by_rounds']['low']:.1%}, {m['by_rounds']['high']:.1%}]",
            f"{m['a'] * 1e6:.0f}",
            "found" if m["found"] else "NOT FOUND",
        )
        for found in results.of("dispatch")
        for m in found["known"]
    ]
    columns = ("adapter", "mode", "put there, us", "b moved by, us", "of it", "by rounds [95 %]", "a moved by, us", "")
    return Table("A known cost", columns, rows, "found: b moved by the delay within 5 %, and a by less than one delay; "
                 "lines through the least times")  # fmt: skip


def framework(results: Results) -> Table:
    """Layer by layer: what a call and a dispatch cost through it, and what it adds to the layer before."""
    rows = [
        (
            device_name(found),
            one["name"],
            f"{one['b'] * 1e6:.3g} [{one['low'] * 1e6:.3g}, {one['high'] * 1e6:.3g}]",
            f"{one['more_b'] * 1e6:+.3g}",
            f"{one['a'] * 1e6:.3g}",
            f"{one['more_a'] * 1e6:+.3g}",
        )
        for found in results.of("framework")
        for one in found["layers"]
    ]
    columns = ("adapter", "layer", "a dispatch, us [95 %]", "more", "a call, us", "more")
    note = "no torch.compile backend and no eager device are part of this version, so their layers are not there"
    return Table("Framework", columns, rows, note)


def cut(results: Results) -> Table:
    """What was left out for want of time."""
    rows = [(device_name(found), text) for found in results.of("dispatch") for text in found["cut"]]
    notes = [f"{device_name(found)}: {found['seconds']:.0f} s" for found in results.of("dispatch")]
    return Table("Cut from the dispatch suite", ("adapter", "what"), rows, "; ".join(notes))


ALL = (costs, parts, transfers, known_costs, framework, cut)


def _us(estimate: Mapping[str, Any]) -> str:
    value, low, high = (f"{1e6 * estimate[k]:.3g}" for k in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _size(size: int) -> str:
    unit, one = next((u, n) for u, n in UNITS if size >= n)
    return f"{size // one} {unit}"
