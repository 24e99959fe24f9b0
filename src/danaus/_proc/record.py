"""What an agent knows of one proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from danaus._proc.exits import NOT_STARTED, describe_exit
from danaus._proc.output import LogDirectory, Stream

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._net.reactor import Reactor

__all__ = ["ProcRecord"]

_LAST_LINES = 20
"""Lines of stderr in the report of a death (2 KB is all that an error text may take)."""

_UNOPENED = -2
"""In place of a descriptor: nothing was written yet."""


class ProcRecord:
    """One proc: its owner, its control link, its output, and how it ended."""

    def __init__(
        self, spec: dict[str, Any], zygote: int, logs: LogDirectory, tail_lines: int
    ) -> None:
        self.id: str = spec["id"]
        self.owner: str = spec["owner"]
        self.root: str = spec.get("root") or self.owner
        self.zygote = zygote
        self.spec = spec
        self.pid = 0
        self.link: Link | None = None
        self.watchers: set[str] = set()
        """Processes that are told of its end: those that dialled it, were dialled, or asked."""
        self.stopping = False
        """True once its end was asked for."""
        self.stop_reason = ""
        self.exit: dict[str, Any] | None = None
        self._logs = logs
        self._log_fd = _UNOPENED
        self._streams: list[Stream] = []
        self._tail_lines = tail_lines
        self.started = time.monotonic()

    def capture(
        self,
        out: int,
        err: int,
        reactor: Reactor,
        emit: Callable[[ProcRecord, int, list[bytes]], None],
    ) -> None:
        """Read its output from these pipes."""

        def give(number: int, lines: list[bytes]) -> None:
            emit(self, number, lines)

        self._streams = [
            Stream(fd, number, self._write, give, reactor, self._tail_lines)
            for number, fd in ((1, out), (2, err))
        ]

    def _write(self, data: bytes) -> None:
        if self._log_fd == _UNOPENED:
            self._log_fd = self._logs.open(self.id)
        if self._log_fd >= 0:
            try:
                os.write(self._log_fd, data)
            except OSError:
                # A full disk must not stop the proc, which would block on its pipe.
                os.close(self._log_fd)
                self._log_fd = -1

    def ended(self, status: int, *, oom: bool) -> dict[str, Any]:
        """Record the end; the report that owners and callers get."""
        for stream in self._streams:
            stream.drain()
            stream.close()
        described = describe_exit(status, oom=oom)
        tail = b"\n".join(self._streams[1].tail.lines()[-_LAST_LINES:]) if self._streams else b""
        self.exit = {
            **described,
            "pid": self.pid,
            "stopping": self.stopping,
            "reason": self.stop_reason,
            "stderr": tail.decode("utf-8", "replace"),
            "log": self._logs.file_for(self.id) if self._log_fd != _UNOPENED else "",
        }
        if self._log_fd >= 0:
            os.close(self._log_fd)
        if self.link is not None:
            self.link.close()
        return self.exit

    def failed_to_start(self, why: str) -> dict[str, Any]:
        """Record that it never ran."""
        report = self.ended(NOT_STARTED << 8, oom=False)
        report["text"] = f"could not be started: {why}"
        return report
