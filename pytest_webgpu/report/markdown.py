"""The report for people who read text, such as a step summary in CI: the verdict first."""

from __future__ import annotations

from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import all_tables


def render(results: Results) -> str:
    lines = [f"# WebGPU: {results.verdict}", "", ", ".join(f"{n} {what}" for what, n in results.outcomes.items())]
    for nodeid in results.failed:
        said = [f"  {line}" for line in results.messages[nodeid].splitlines()]
        lines += [f"- failed: `{nodeid}`", "", "  ```", *said, "  ```", ""]
    lines += [f"- skipped: {n} because {reason}" for reason, n in results.reasons.most_common()]
    for table in all_tables(results):
        lines += ["", f"## {table.title}", "", row(table.columns), row(("---",) * len(table.columns))]
        lines += map(row, table.rows)
        lines += ["", table.note] if table.note else []
    return "\n".join(lines) + "\n"


def row(cells: tuple[str, ...]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
