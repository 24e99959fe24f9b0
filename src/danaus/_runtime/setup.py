"""The bootstrap of a proc: what must have run before any of its actors is made."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from danaus._runtime.outcome import RAISED, VALUE, close_error
from danaus._wire.codec import dumps

if TYPE_CHECKING:
    from danaus._runtime.call import Call
    from danaus._runtime.router import Runtime

__all__ = ["SETUP", "Setup"]

SETUP = "@setup"
"""Name under which a process answers whether its bootstrap has ended."""


class Setup:
    """Whether the bootstrap has ended, and those who wait to hear of it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._ended = threading.Event()
        self._ended.set()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._waiting: list[Call] = []

    def begin(self) -> None:
        """Actors wait from now on, until `end`."""
        self._ended.clear()

    def end(self, failure: BaseException | None) -> None:
        """The bootstrap function has returned, or failed."""
        with self._lock:
            self._failure = failure
            self._ended.set()
            waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._reply(call)

    def wait(self) -> BaseException | None:
        """Return when the bootstrap function has ended: None, or why it failed."""
        self._ended.wait()
        return self._failure

    def answer(self, call: Call) -> None:
        """Tell who asks, once it has ended, the pid of this process or why it failed."""
        with self._lock:
            if not self._ended.is_set():
                self._waiting.append(call)
                return
        self._reply(call)

    def _reply(self, call: Call) -> None:
        runtime = self._runtime
        if self._failure is None:
            runtime.reply(call, VALUE, dumps(os.getpid()))
        else:
            message = f"The bootstrap of process {runtime.id} failed."
            runtime.reply(call, RAISED, close_error(self._failure, message))
