"""What an agent knows of one proc."""

from __future__ import annotations

import math
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

_REPORTED = 16 << 10
"""Bytes of stderr in the report of a death. Each watcher gets it, and the agent keeps it."""

_UNOPENED = -2
"""In place of a descriptor: nothing was written yet."""

_CLOSED = -1
"""In place of a descriptor: nothing more is written."""

_STDERR = 2

_CUT_OFF = (
    "its connection to its host was closed, and so its host killed it. Code that closes descriptors "
    "which it has not opened, such as os.closerange(3, 256), does this"
)


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
        self.ready = False
        """True once it has reported that it runs."""
        self.late = ""
        """Why it is ended that has not; empty while it has time."""
        self.cut_off = False
        """True once it was killed because it had closed its link and yet did not end."""
        self.exit: dict[str, Any] | None = None
        self.streams: bool = spec.get("streams", True)
        """Whether its output goes to its client."""
        self.early: list[tuple[int, list[bytes]]] = []
        """Output that came before its pid was known."""
        self.shown = False
        """Whether its client has had output of it."""
        self._logs = logs
        self._log_fd = _UNOPENED if spec.get("capture", True) else _CLOSED
        self._log_file = ""
        self._emit: Callable[[ProcRecord, int, list[bytes]], None] | None = None
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

        self._emit = emit
        self._streams = [
            Stream(fd, number, self._write, give, reactor, self._tail_lines)
            for number, fd in ((1, out), (2, err))
        ]

    def source(self, host: str) -> list[Any]:
        """Whose output it is, as `kinds.LOG` has it."""
        spec = self.spec
        procs = math.prod(spec.get("sizes") or (1,))
        return [spec["mesh"], spec.get("label", ""), host, self.pid, spec.get("rank"), procs]

    def read_output(self) -> None:
        """Read what it has written by now."""
        for stream in self._streams:
            stream.drain()

    def _write(self, data: bytes) -> None:
        if self._log_fd == _CLOSED:
            return
        try:
            if self._log_fd == _UNOPENED:
                self._log_fd = self._logs.open(self.id)
                self._log_file = self._logs.file_for(self.id)
            written = os.write(self._log_fd, data)
            while written < len(data):  # the next write says why
                written += os.write(self._log_fd, data[written:])
        except OSError as error:
            # A full disk must not stop the proc, which would block on its pipe.
            self._close_log()
            self._complain(error)

    def _close_log(self) -> None:
        if self._log_fd >= 0:
            os.close(self._log_fd)
        self._log_fd = _CLOSED

    def _complain(self, error: OSError) -> None:
        text = (
            f"danaus: what this process prints can no longer be written to a file in "
            f"{self._logs.path}: {error.strerror}. It runs on."
        )
        if self._emit is not None:
            self._emit(self, _STDERR, [text.encode("utf-8", "backslashreplace")])

    def ended(self, status: int, *, oom: bool) -> dict[str, Any]:
        """Record the end; the report that owners and callers get."""
        if self.link is not None:
            self.link.finish()  # what it wrote last may say that it was ready
        self.read_output()
        for stream in self._streams:
            stream.close()
        self.exit = {
            **describe_exit(status, oom=oom),
            "pid": self.pid,
            "stopping": self.stopping,
            "reason": self.stop_reason,
            "stderr": self._last_words(),
            "log": self._log_file,
        }
        if self.cut_off:
            self.exit["text"] = _CUT_OFF
        elif self.late:
            self.exit["text"] = f"it could not be started: {self.late}"
        elif not self.ready and not self.stopping:
            self.exit["text"] += ", before it was ready"
        self._close_log()
        return self.exit

    def _last_words(self) -> str:
        if self.stopping or not self._streams:
            return ""
        tail = b"\n".join(self._streams[1].tail.lines())
        if len(tail) > _REPORTED:
            tail = tail[-_REPORTED:].partition(b"\n")[2] or tail[-_REPORTED:]
        return tail.decode("utf-8", "replace")

    def failed_to_start(self, why: str) -> dict[str, Any]:
        """Record that it never ran."""
        report = self.ended(NOT_STARTED << 8, oom=False)
        report["text"] = f"it could not be started: {why}"
        return report
