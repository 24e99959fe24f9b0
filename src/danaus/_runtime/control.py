"""What agents say to a process: peers that dial it, processes that started or ended, output."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from danaus._wire import kinds

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._runtime.router import Runtime

__all__ = ["Control"]


class Control:
    """Handles control frames, on the driving thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.pids: dict[str, int] = {}
        """Pids of the procs that this process started."""
        self.on_log: Callable[[str, int, int, list[bytes]], None] | None = None
        """In a client: what to do with (proc, pid, stream, lines)."""
        self.on_stop: Callable[[str, float], None] | None = None
        """In a proc: how to end."""
        self.on_welcome: Callable[[Link, list[Any]], None] | None = None

    def on_control(self, link: Link, kind: int, routing: list[Any], fds: list[int]) -> None:
        """Handle one frame; descriptors that it brings are used or closed."""
        if kind == kinds.HANDOVER:
            self._runtime.routes.adopt(fds.pop(), routing[0])
        elif kind in (kinds.PROC_EXIT, kinds.REFUSED):
            self._runtime.routes.bury(routing[0], routing[1])
        elif kind == kinds.PROC_UP:
            self.pids[routing[0]] = routing[1]
        elif kind == kinds.LOG:
            if self.on_log is not None:
                self.on_log(routing[0], routing[1], routing[2], routing[3])
        elif kind == kinds.STOP:
            if self.on_stop is not None:
                self.on_stop(routing[0], routing[1])
        elif kind == kinds.WELCOME and self.on_welcome is not None:
            self.on_welcome(link, routing)
        for fd in fds:
            os.close(fd)
