"""A fixed piece of work that no change here touches: its time says whether the machine can be judged.

It is never a divisor: dividing by it makes figures worse, since what slows it is not what slows them.
"""

from __future__ import annotations

import hashlib
import time

KEY = "canary"
BLOCK = bytes(1 << 20)
ROUNDS = 30


def canary_seconds(rounds: int = ROUNDS) -> float:
    """The least time of hashing 1 MiB, in seconds; 30 rounds take some tens of milliseconds."""
    least = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        hashlib.sha256(BLOCK).digest()
        least = min(least, time.perf_counter() - began)
    return least
