"""A pipe whose other side is held by whoever has started this process, and may die."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor

__all__ = ["Lifeline"]


class Lifeline:
    """Calls back once when the other side of a pipe or socket has ended. What comes is ignored."""

    def __init__(self, descriptor: int, reactor: Reactor, on_end: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._reactor = reactor
        self._on_end = on_end
        os.set_blocking(descriptor, False)

    def on_ready(self, _mask: int) -> None:
        """Something came, or the end."""
        try:
            over = not os.read(self._descriptor, 4096)
        except BlockingIOError:
            return
        except OSError:
            over = True
        if over:
            self._reactor.unregister(self._descriptor)
            self._on_end()
