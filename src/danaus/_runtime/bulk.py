"""How much shared memory may be on its way from this process: back-pressure for large messages."""

from __future__ import annotations

import os
import threading
import time

from danaus import _config

__all__ = ["BulkBudget"]

_PATIENCE = 30.0
"""Seconds without progress after which a sender goes on all the same.

Two actors that send each other more than the budget, and take nothing meanwhile, would wait for
ever.
"""


class BulkBudget:
    """Counts bytes of shared memory that were sent and not taken over by their receivers yet."""

    def __init__(self) -> None:
        self._out: dict[str, int] = {}
        self._total = 0
        self._room = threading.Condition()
        self._limit = _config.get("bulk_inflight_bytes") or _memory() // 4

    def take(self, proc: str, nbytes: int) -> None:
        """Count a message to ``proc``; wait first if too much is on its way."""
        with self._room:
            last, since = self._total, time.monotonic()
            while self._total and self._total + nbytes > self._limit:
                self._room.wait(1.0)
                now = time.monotonic()
                if self._total != last:
                    last, since = self._total, now
                elif now - since > _PATIENCE:
                    break
            self._total += nbytes
            self._out[proc] = self._out.get(proc, 0) + nbytes

    def give_back(self, proc: str, nbytes: int) -> None:
        """``proc`` has taken over a message."""
        with self._room:
            known = self._out.get(proc, 0)
            nbytes = min(nbytes, known)
            if nbytes == known:
                self._out.pop(proc, None)
            else:
                self._out[proc] = known - nbytes
            self._total -= nbytes
            self._room.notify_all()

    def forget(self, proc: str) -> None:
        """``proc`` is dead, and all that was on its way to it with it."""
        with self._room:
            self._total -= self._out.pop(proc, 0)
            self._room.notify_all()


def _memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 8 << 30
