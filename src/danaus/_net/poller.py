"""Waiting for many descriptors, and being woken from it: epoll and eventfd, or poll and a pipe.

All that is used of epoll is the same in poll: a set of descriptors, each with a mask, and a wait
that names those that are ready. The masks' numbers are the same as well.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Sequence
from typing import Protocol

from danaus._proc.system import NATIVE

__all__ = [
    "IN",
    "OUT",
    "PollPoller",
    "Poller",
    "close_waker",
    "make_poller",
    "make_waker",
    "quiet",
    "ring",
]

IN = int(select.POLLIN)
OUT = int(select.POLLOUT)


class Poller(Protocol):
    """What is used of epoll."""

    def register(self, fd: int, eventmask: int, /) -> None:
        """Watch a descriptor."""
        ...

    def modify(self, fd: int, eventmask: int, /) -> None:
        """Watch it for something else."""
        ...

    def unregister(self, fd: int, /) -> None:
        """Watch it no more."""
        ...

    def poll(self, timeout: float, maxevents: int, /) -> Sequence[tuple[int, int]]:
        """Wait, at most ``timeout`` seconds (-1: for ever), and say which are ready for what."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class PollPoller:
    """poll with the face of epoll.

    Args:
        interrupt: Ends a wait that is under way: unlike epoll's, it does not see what other threads
            change meanwhile.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._poll = select.poll()
        self._interrupt = interrupt
        self._waiting = False

    def register(self, fd: int, eventmask: int, /) -> None:
        """Watch a descriptor."""
        self._poll.register(fd, eventmask)
        self._changed()

    def modify(self, fd: int, eventmask: int, /) -> None:
        """Watch it for something else."""
        self._poll.modify(fd, eventmask)
        self._changed()

    def unregister(self, fd: int, /) -> None:
        """Watch it no more."""
        try:
            self._poll.unregister(fd)
        except KeyError:
            raise FileNotFoundError(f"descriptor {fd} is not watched") from None
        self._changed()

    def _changed(self) -> None:
        if self._waiting:
            self._interrupt()

    def poll(self, timeout: float, maxevents: int, /) -> Sequence[tuple[int, int]]:
        """Wait, at most ``timeout`` seconds (-1: for ever), and say which are ready for what."""
        self._waiting = True
        try:
            ready = self._poll.poll(None if timeout < 0 else timeout * 1000)
        finally:
            self._waiting = False
        return ready[:maxevents]

    def close(self) -> None:
        """Release what it holds: nothing."""


def make_poller(interrupt: Callable[[], None]) -> Poller:
    """A poller; ``interrupt`` ends its wait from another thread."""
    return select.epoll() if NATIVE else PollPoller(interrupt)


def make_waker() -> tuple[int, int]:
    """Descriptors to wait for a ring at, and to ring: the same one where that can be."""
    if NATIVE:
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return fd, fd
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    return reader, writer


def close_waker(reader: int, writer: int) -> None:
    """Close them."""
    os.close(reader)
    if writer != reader:
        os.close(writer)


def _ring_pipe(writer: int) -> None:
    try:
        os.write(writer, b"\0")
    except BlockingIOError:
        return  # it rings already


def _ring_event(writer: int) -> None:
    os.eventfd_write(writer, 1)


def _quiet_pipe(reader: int) -> None:
    try:
        os.read(reader, 65536)
    except BlockingIOError:
        return


def _quiet_event(reader: int) -> None:
    try:
        os.eventfd_read(reader)
    except BlockingIOError:
        return


ring = _ring_event if NATIVE else _ring_pipe
"""Ring, from any thread. Raises OSError when it is closed."""

quiet = _quiet_event if NATIVE else _quiet_pipe
"""End the ringing."""
