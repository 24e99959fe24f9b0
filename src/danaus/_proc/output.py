"""Capture of what procs write: whole to a file each, line by line to their client."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from danaus._observe.lines import LineSplitter, TailBuffer

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor

__all__ = ["LogDirectory", "Stream", "state_directory"]

_READ = 1 << 16
"""Capacity of a pipe."""

_READ_AHEAD = 64
"""Reads after which a proc that writes without end is left to write."""

_KEPT = 20
"""Sessions whose files are kept."""


def state_directory() -> str:
    """Where what is to outlive its session lies for this user; it may not exist yet."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "danaus")


class LogDirectory:
    """One session's output files, made when there is something to write.

    They lie under the user's state directory: they are to outlive the session, so that a crash
    can be read afterwards. The oldest sessions that have ended are removed.

    Args:
        name: The host's name.
    """

    def __init__(self, name: str) -> None:
        self._node = platform.node()
        self.root = os.path.join(state_directory(), "logs")
        self.path = os.path.join(self.root, f"{self._node}-{os.getpid()}-{name}")
        self._made = False

    def file_for(self, proc: str) -> str:
        """Path of a proc's output file; the file may not exist yet."""
        return os.path.join(self.path, f"{proc}.log")

    def open(self, proc: str) -> int:
        """Open a proc's file for appending.

        Raises:
            OSError: The disk does not let us.
        """
        if not self._made:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._made = True
            self._prune()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self.file_for(proc), flags, 0o600)

    def _prune(self) -> None:
        try:
            sessions = [os.path.join(self.root, name) for name in os.listdir(self.root)]
            sessions.sort(key=_modified)
            for session in sessions[:-_KEPT]:
                if self._has_ended(os.path.basename(session)):
                    for name in os.listdir(session):
                        os.unlink(os.path.join(session, name))
                    os.rmdir(session)
        except OSError:
            return  # another agent was quicker, or the files are not ours to remove

    def _has_ended(self, session: str) -> bool:
        """Tell whether a session's agent is gone. A directory may be shared by several nodes."""
        node, _, rest = session.partition(f"{self._node}-")
        pid = rest.partition("-")[0]
        return not node and pid.isdecimal() and not os.path.exists(f"/proc/{pid}")


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


class Stream:
    """One pipe from a proc: stdout (1) or stderr (2)."""

    def __init__(
        self,
        fd: int,
        number: int,
        write: Callable[[bytes], None],
        emit: Callable[[int, list[bytes]], None],
        reactor: Reactor,
        tail_lines: int,
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._number = number
        self._write = write
        self._emit = emit
        self._reactor = reactor
        self._splitter = LineSplitter()
        self.tail = TailBuffer(tail_lines)
        self._timer = False
        self._open = True
        reactor.register(fd, self)

    def on_ready(self, _mask: int) -> None:
        """The pipe is readable or closed."""
        try:
            data = os.read(self._fd, _READ)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._take(data)

    def _take(self, data: bytes) -> None:
        self._write(data)
        now = time.monotonic()
        lines = self._splitter.feed(data, now)
        if lines:
            self._give(lines)
        self._arm(now)

    def _give(self, lines: list[bytes]) -> None:
        self.tail.extend(lines)
        self._emit(self._number, lines)

    def _arm(self, now: float) -> None:
        deadline = self._splitter.deadline
        if deadline is not None and not self._timer and self._open:
            self._timer = True
            self._reactor.call_later(max(0.01, deadline - now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = False
        now = time.monotonic()
        lines = self._splitter.take_partial(now)
        if lines:
            self._give(lines)
        self._arm(now)

    def drain(self) -> None:
        """Read all that is there now."""
        for _ in range(_READ_AHEAD):
            if not self._open:
                return
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            if not data:
                return
            self._take(data)

    def close(self) -> None:
        """Give out what is left, and let go of the pipe."""
        if self._open:
            self._open = False
            lines = self._splitter.flush()
            if lines:
                self._give(lines)
            self._reactor.unregister(self._fd)
            os.close(self._fd)
