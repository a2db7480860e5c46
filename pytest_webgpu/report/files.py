"""Writes the reports that `--webgpu-report` names; the suffix says how."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_webgpu.report.results import Results

SUFFIXES = (".json", ".md", ".html")


def check(names: Iterable[str]) -> None:
    """Raises pytest.UsageError for a report that could not be written, before anything has run."""
    for name in names:
        suffix = Path(name).suffix
        if suffix not in SUFFIXES:
            raise pytest.UsageError(f"--webgpu-report={name}: the suffix must be one of {', '.join(SUFFIXES)}")
        if suffix == ".html":
            try:
                import jinja2  # noqa: F401
            except ModuleNotFoundError:
                raise pytest.UsageError(
                    f"--webgpu-report={name} needs jinja2: pip install 'pytest-webgpu[report]'"
                ) from None


def write(results: Results, names: Iterable[str], folder: Path) -> list[str]:
    """Writes each report, whole or not at all, and returns a line about each."""
    from pytest_webgpu.report import html, json, markdown

    renderers = {".json": json.render, ".md": markdown.render, ".html": html.render}
    lines = []
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_text(renderers[path.suffix](results), encoding="utf-8")
        unfinished.replace(path)
        lines.append(f"report: {name}")
    return lines
