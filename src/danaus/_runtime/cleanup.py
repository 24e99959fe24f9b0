"""The time that an actor's clean-up may take."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from danaus import _config

if TYPE_CHECKING:
    from danaus._runtime.cell import ActorCell

__all__ = ["CleanupLimit"]


class CleanupLimit:
    """Sees to it that what waits for a clean-up is called once: after it, or when it is overdue."""

    def __init__(self, cell: ActorCell, done: Callable[[], None]) -> None:
        self._cell = cell
        self._pending = [done]
        self.seconds: float = _config.get("cleanup_timeout")
        cell.runtime.reactor.call_later(self.seconds, self.overdue)

    def finish(self) -> bool:
        """It has returned, or raised. False: that was too late."""
        try:
            done = self._pending.pop()
        except IndexError:
            return False
        done()
        return True

    def overdue(self) -> None:
        """Its time is up."""
        if self.finish():
            sys.stderr.write(
                f"danaus: __cleanup__ of {self._cell.title} has not returned within "
                f"{self.seconds:g} s (cleanup_timeout); nothing waits for it any more\n"
            )
            self._cell.note_ended()
