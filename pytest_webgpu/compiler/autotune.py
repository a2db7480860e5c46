"""What the autotuner found for a plan's steps on this adapter, measured once and kept on disk as plain JSON."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from pytest_webgpu.compiler.build import key_of
from pytest_webgpu.compiler.choose import Call, Chooser, Tuned, TuneKey
from pytest_webgpu.compiler.plan import Plan
from pytest_webgpu.compiler.tune import Candidate, Question, Timed, fastest, usual
from pytest_webgpu.gpu.job import Runner
from pytest_webgpu.ops import contract as contracts

POSITION = 256
"""Where in the cache a token stands when attention is timed: a conversation's beginning, not its limit."""
GAIN = 0.97
"""A candidate is taken when it needs at most this share of the default's time; less may be noise."""


class Tuning:
    """The best kernel and tunables of each call, for one adapter and library. `folder` is the user's cache by default.

    The file, one an adapter and library, can be read and edited: {op dims dtype: {kernel, overrides, microseconds}}.
    """

    def __init__(self, chooser: Chooser, folder: Path | str | None = None) -> None:
        self.chooser = chooser
        names = ("adapter", "driver", "backend", "implementation", "version", "features")
        key = key_of(chooser.library, **{name: getattr(chooser.info, name) for name in names})
        self.file = Path(folder or Path(platformdirs.user_cache_dir("pytest-webgpu"), "tuned")) / f"{key}.json"
        self._known = self._read()

    def tune(self, runner: Runner, plan: Plan) -> dict[TuneKey, Tuned]:
        """The choice for each call of the plan; what the file does not have is measured and added to it.

        Raises MissingFeature where the device has no timestamps.
        """
        keys = {self.chooser.tune_key(call): call for call in calls_of(plan)}
        fresh = [call for key, call in keys.items() if _name(key) not in self._known]
        if fresh:
            for call, timed in zip(fresh, fastest(runner, [*map(self._question, fresh)]), strict=True):
                self._known[_name(self.chooser.tune_key(call))] = self._best(call, timed)
            self._write()
        entries = {key: self._known[_name(key)] for key in keys}
        return {key: Tuned(entry["kernel"], entry["overrides"]) for key, entry in entries.items()}

    def _question(self, call: Call) -> Question:
        capacity = call.dims.get("capacity", POSITION + 1)
        scalars = {**call.scalars, **dict.fromkeys(call.on_device, min(POSITION, capacity - 1))}
        return Question(contracts.get(call.op), tuple(self.chooser.fitting(call)), call.dims, scalars)

    def _best(self, call: Call, timed: Sequence[Timed]) -> dict[str, Any]:
        default = self.chooser.choose(call)
        plain = Candidate(default.kernel, usual(default.kernel))
        first = next((t for t in timed if t.candidate == plain), None)
        best = timed[0] if timed and (first is None or timed[0].seconds < GAIN * first.seconds) else first
        if best is None:
            return {"kernel": default.kernel.name, "overrides": {}, "microseconds": None}
        tune = dict(best.candidate.tune)
        return {"kernel": best.candidate.kernel.name, "overrides": tune, "microseconds": round(best.seconds * 1e6, 2)}

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            known = json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=self.file.parent)
        with os.fdopen(handle, "w") as file:
            json.dump(self._known, file, indent=1, sort_keys=True)
        os.replace(fresh, self.file)


def calls_of(plan: Plan) -> Iterable[Call]:
    """Each different call among the plan's steps, once."""
    seen = set()
    for step in plan.steps:
        stored = {name: plan.buffers[ref.buffer].storage for name, ref in (*step.arguments.items(),
                  *step.outputs.items())}  # fmt: skip
        call = Call(step.op, step.dims, step.scalars, stored, tuple(step.on_device))
        key = (call.op, tuple(sorted(call.dims.items())), tuple(sorted(stored.items())))
        if key not in seen:
            seen.add(key)
            yield call


def _name(key: TuneKey) -> str:
    op, dims, dtype = key
    return f"{op} {' '.join(f'{k}={v}' for k, v in dims)} {dtype}"
