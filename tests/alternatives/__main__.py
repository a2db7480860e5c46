"""Alarms on correct kernels, which there should be none of: `python -m tests.alternatives 1000 [OP ...]`."""

from __future__ import annotations

import argparse
import collections
import sys
import time

from pytest_webgpu.conformance.check import ConformanceFailure
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import MODULES, choose
from pytest_webgpu.gpu.job import NoAdapter, Runner
from tests.alternatives import LIBRARY, hold


def run(runner: Runner, cases: int, ops: list[str]) -> list[str]:
    """Prints a line a kernel as it is held; gives the alarms, each in full."""
    alarms, found, most = [], collections.Counter[str](), 0.0
    for kernel in (k for k in LIBRARY.all() if not ops or k.header.op in ops):
        lacking = kernel.features - set(runner.info.features)
        began, alarm = time.monotonic(), ""
        if lacking:
            print(f"{kernel.name:64} NOT RUN: needs {', '.join(sorted(lacking))}", flush=True)
            continue
        try:
            report = hold(kernel, runner, cases)
        except ConformanceFailure as failure:
            alarms.append(str(failure))
            print(f"{kernel.name:64} ALARM", flush=True)
        else:
            most, found["cases"] = max(most, report.headroom), found["cases"] + report.cases
            alarm = f"largest error/bound {report.headroom:.3f}, not compared {report.unspecified_share:.1%}"
            seconds = time.monotonic() - began
            print(f"{kernel.name:64} {report.cases:5} cases, {alarm}, {seconds:.0f} s", flush=True)
        found["kernels"] += 1
    print(f"{found['kernels']} kernels, {found['cases']} cases, {len(alarms)} alarms, largest error/bound {most:.3f}\n")
    return alarms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int, nargs="?", default=50)
    parser.add_argument("ops", nargs="*", help="no others")
    parser.add_argument("--implementation", action="append", choices=list(MODULES), help="no others")
    asked = parser.parse_args()
    alarms = []
    for implementation in asked.implementation or MODULES:
        try:
            adapter = choose("auto", implementation)
        except NoAdapter as error:
            print(f"{implementation}: NOT RUN: {error}\n")
            continue
        print(f"{implementation}, {adapter.info.adapter} ({adapter.info.backend}), {adapter.info.driver}")
        runner = open_runner(adapter)
        try:
            alarms += run(runner, asked.cases, asked.ops)
        finally:
            runner.close()
    print("\n\n".join(alarms))
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
