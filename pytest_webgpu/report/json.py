"""The report for programs."""

from __future__ import annotations

import json

from pytest_webgpu.report.results import Results


def render(results: Results) -> str:
    """`Results.as_data` as JSON. NaN and infinity, which JSON lacks, raise ValueError: no finding may be one."""
    return json.dumps(results.as_data(), indent=1, allow_nan=False) + "\n"
