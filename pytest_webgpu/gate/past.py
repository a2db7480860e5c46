"""What was accepted before: the stored sessions of a fingerprint, and of its near misses where these may stand in."""

from __future__ import annotations

import datetime
from pathlib import Path

from pytest_webgpu.gate import rules, store
from pytest_webgpu.gate.fingerprint import Fingerprint
from pytest_webgpu.gate.rules import LEAST_SITTINGS, Count


class Past:
    """Baselines under a folder, each file read once. Every method raises store.BaselineError for one that is damaged.

    `accept_near`: a fingerprint with fewer than three sittings of its own is also judged by those of its newest near
    miss, such as the driver before this one.
    """

    def __init__(self, root: Path, accept_near: bool = False) -> None:
        self._root, self._accept_near = root, accept_near
        self._own: dict[Fingerprint, list[store.Session]] = {}
        self._near: dict[Fingerprint, list[store.Session]] = {}

    def own(self, of: Fingerprint) -> list[store.Session]:
        """The sessions of exactly this fingerprint, oldest first."""
        if of not in self._own:
            self._own[of] = _not_from_the_future(store.load(self._root, of))
        return self._own[of]

    def near(self, of: Fingerprint) -> list[store.Session]:
        """Those of the newest near miss: the same but for what an update changes."""
        if of not in self._near:
            found = store.near_misses(self._root, of)
            self._near[of] = _not_from_the_future(found[-1]) if found else []
        return self._near[of]

    def values(self, of: Fingerprint, key: str, processes: int = 1) -> list[float]:
        """A benchmark's values, one a sitting, oldest first; of sessions that were the least of as many processes."""
        own = [s for s in self.own(of) if s.processes >= processes]
        values = store.history(own, key)
        if self._accept_near and len(values) < LEAST_SITTINGS:
            near = [s for s in self.near(of) if s.processes >= processes]
            values = store.history([*near, *own], key)
        return values

    def fewer_processes(self, of: Fingerprint, key: str, processes: int) -> int:
        """How many sittings do not count because fewer processes measured in them."""
        return len(self.values(of, key)) - len(self.values(of, key, processes))

    def count(self, of: Fingerprint, key: str) -> tuple[Count | None, str]:
        """The count that was recorded last, and of which near miss where it is one's.

        No clock is in a count: what an update changes need not be the same.
        """
        for session in reversed(self.own(of)):
            if key in session.counts:
                return session.counts[key], ""
        for session in reversed(self.near(of)):
            if key in session.counts:
                return session.counts[key], changes(of, session.fingerprint)
        return None, ""

    def ratio(self, of: Fingerprint, key: str) -> float | None:
        """The greatest that was recorded of a ratio that is better when it is less, such as error/bound."""
        sessions = self.own(of) or (self.near(of) if self._accept_near else [])
        found = [s.ratios[key] for s in sessions if key in s.ratios]
        return max(found, default=None)


def _not_from_the_future(sessions: list[store.Session]) -> list[store.Session]:
    """Sessions of one sitting count once, by their times: a clock that went back makes of one sitting many."""
    now = datetime.datetime.now(datetime.UTC)
    for session in sessions:
        if session.started > now + rules.SITTING:
            assert session.path is not None
            raise store.BaselineError(
                session.path,
                f"was recorded at {session.started:%Y-%m-%d %H:%M} UTC, which is to come: a clock went backwards",
                "Set this machine's clock, or delete the file and record it again.",
            )
    return sessions


def changes(ours: Fingerprint, theirs: Fingerprint) -> str:
    """ "driver was 580.1, cpu was ..."."""
    return ", ".join(f"{name} was {was}" for name, (_, was) in ours.differences(theirs).items())
