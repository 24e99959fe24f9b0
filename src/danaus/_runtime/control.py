"""What agents say to a process: peers that dial it, processes that started or ended, output."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._proc.versions import find_conflict, versions
from danaus._wire import kinds

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._runtime.router import Runtime

__all__ = ["Control"]

_encode = msgspec.msgpack.Encoder().encode

_OUTPUT = (kinds.LOG, kinds.LOG_END, kinds.LOG_WINDOW)


class Control:
    """Handles control frames, on the driving thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.pids: dict[str, int] = {}
        """Pids of the procs that this process started."""
        self.on_output: Callable[[int, list[Any]], None] = self._pass_on_output
        """What to do with output of procs: a frame's kind and routing."""
        self.on_stop: Callable[[str, float], None] | None = None
        """In a proc: how to end."""

    def on_control(self, link: Link, kind: int, routing: list[Any], fds: list[int]) -> None:
        """Handle one frame; descriptors that it brings are used or closed."""
        if kind == kinds.HANDOVER:
            self._runtime.routes.adopt(fds.pop(), *routing)
        elif kind in (kinds.PROC_EXIT, kinds.REFUSED):
            self._on_end(link, *routing)
        elif kind == kinds.PROC_UP:
            self.pids[routing[0]] = routing[1]
        elif kind in _OUTPUT:
            self.on_output(kind, routing)
        elif kind == kinds.LOG_LEVEL:
            _set_log_level(link, *routing)
        elif kind == kinds.STOP:
            if self.on_stop is not None:
                self.on_stop(routing[0], routing[1])
        elif kind == kinds.WELCOME:
            self._on_welcome(link, routing)
        for fd in fds:
            os.close(fd)

    def _on_end(self, link: Link, proc: str, report: dict[str, Any] | None) -> None:
        if proc:
            unknown = {"text": f"the agent at {link.peer or 'its host'} knows nothing of it"}
            self._runtime.routes.bury(proc, unknown if report is None else report)
        else:
            self._runtime.routes.refuse(link, (report or {}).get("text", ""))

    def _on_welcome(self, link: Link, routing: list[Any]) -> None:
        host, _, theirs = routing
        conflict = find_conflict(versions(), theirs, f"host {host} has")
        if conflict:
            self._runtime.routes.refuse(link, f"this client refuses host {host}: {conflict}")
            return
        self._runtime.routes.welcomes[link.peer] = host
        self._runtime.routes.host_names[link.peer] = host

    def _pass_on_output(self, kind: int, routing: list[Any]) -> None:
        """In a proc: what it has spawned on another host prints; its own agent knows the way."""
        agent = self._runtime.routes.agents.get(self._runtime.address)
        if agent is not None:
            agent.send_small(kind, _encode(routing), b"")


def _set_log_level(link: Link, level: int, asker: str, port: int, rank: int) -> None:
    from danaus._runtime.outcome import VALUE
    from danaus._runtime.python_logs import let_pass

    let_pass(level)
    link.send_small(kinds.REPLY, _encode([asker, port, rank, VALUE]), b"")
