"""What the gate says of a run: one verdict, and the rows that changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import Table

ORDER = ("worse", "cannot tell", "no baseline", "better", "changed")
UNKNOWN = ("cannot tell", "no baseline")
SHOWN_ALIKE = 3  # rows that say no more than that something is not known: so many, then how many more


def verdict(results: Results) -> str:
    """REGRESSED, FAILED, NOTHING CHECKED, CANNOT TELL, NO BASELINE or PASSED: the first that holds."""
    judged = Counter(j["verdict"] for j in results.of("judgement") + _races(results))
    regressed = {r.nodeid for r in results.records if r.kind in ("judgement", "race") and r.data["verdict"] == "worse"}
    if set(results.failed) - regressed:
        return "FAILED"
    if judged["worse"]:
        return "REGRESSED"
    if results.verdict != "PASSED":
        return results.verdict
    if judged["cannot tell"]:
        return "CANNOT TELL"
    return "NO BASELINE" if judged["no baseline"] and not judged["not worse"] else "PASSED"


def counted(results: Results) -> str:
    """ "1 worse, 2 cannot tell, 14 not worse"."""
    judged = Counter(j["verdict"] for j in results.of("judgement") + _races(results))
    return ", ".join(f"{judged[v]} {v}" for v in ("worse", "cannot tell", "no baseline", "not worse", "listed")
                     if judged[v])  # fmt: skip


def changed(results: Results) -> Table:
    """Only what is not as it was: worse first, then what cannot be told, then what got better."""
    told = [(what, (_named(j), _times(j["ratio"]), _limit(j["limit"]), j["reason"]))
            for j in results.of("judgement") if (what := kind(j))]  # fmt: skip
    for race in _races(results):
        what = "better" if race["high"] < 1 else race["verdict"]
        if what != "not worse":
            interval = f"{race['low']:.3f} to {race['high']:.3f} in {race['rounds']} paired rounds"
            if what == "cannot tell":
                interval += f"; p = {race['p_within']:.2g} that it is within the limit, 0.01 is asked"
            told.append((what, (f"{race['mine']} against {race['other']}", _times(race["ratio"]), "1.030", interval)))
    rows: list[tuple[str, ...]] = []
    alike: Counter[str] = Counter()
    for what, cells in sorted(told, key=lambda row: ORDER.index(row[0])):
        alike[what] += what in UNKNOWN
        if alike[what] <= SHOWN_ALIKE:
            rows.append((what, *cells))
    more = [f"{n - SHOWN_ALIKE} more {what}" for what, n in alike.items() if n > SHOWN_ALIKE]
    return Table("What changed", ("verdict", "what", "now/baseline", "limit", "why"), rows, "; ".join(more))


def kind(judgement: Mapping[str, Any]) -> str:
    """What a row is shown as: its verdict, "better" beyond its limit the other way, "changed" for a smaller count, or
    nothing for what is as it was."""
    ratio, limit = judgement["ratio"], judgement["limit"]
    if judgement["verdict"] not in ("not worse", "listed"):
        return str(judgement["verdict"])
    if judgement["verdict"] == "listed" or ratio is None or limit is None:
        return ""
    if judgement["group"] == "counts":
        return "changed" if judgement["reason"] != "as recorded" and "->" in judgement["reason"] else ""
    return "better" if ratio < 1 / limit else ""


def _races(results: Results) -> list[dict[str, Any]]:
    """Comparisons with another revision or file; a race against shipped variants is no gate."""
    return [r for r in results.of("race") if r["against"]]


def _named(judgement: Mapping[str, Any]) -> str:
    of = judgement["fingerprint"]
    words = " ".join(w for w in (of["model"], of["dtype"]) if w)
    return f"{judgement['key']} ({words})" if words else str(judgement["key"])


def _times(ratio: float | None) -> str:
    return "" if ratio is None or not math.isfinite(ratio) else f"{ratio:.3f}"


_limit = _times
