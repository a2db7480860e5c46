"""The report for programs."""

from __future__ import annotations

import json

from pytest_webgpu.report import mutants
from pytest_webgpu.report.results import Results


def render(results: Results) -> str:
    """`Results.as_data` as JSON, and `mutants` by op where there were any. NaN and infinity, which JSON lacks, raise
    ValueError: no finding may be one."""
    by_op = mutants.totals(results)
    data = results.as_data() | ({"mutants": by_op} if by_op else {})
    return json.dumps(data, indent=1, allow_nan=False) + "\n"
