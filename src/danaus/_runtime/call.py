"""A message on its way to an actor, as its inbox holds it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from danaus._net.shared import take_parts
from danaus._wire.codec import loads
from danaus._wire.frame import IN_SHARED, shared_layout

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._wire.codec import Parts
    from danaus._wire.frame import Frame
    from danaus.errors import MeshFailure

__all__ = [
    "Abort",
    "Call",
    "Construct",
    "Stop",
    "Supervise",
    "Taker",
    "UndeliverableMessageEnvelope",
    "open_parts",
]


_TAKEN: Parts = ()


class Taker:
    """The parts of a received message; what lies in shared memory is mapped when it is needed."""

    __slots__ = ("_fd", "_frame", "_parts", "nbytes")

    def __init__(self, frame: Frame | None, fd: int, parts: Parts | None) -> None:
        self._frame = frame
        self._fd = fd
        self._parts = parts
        self.nbytes = 0 if frame is None else _shared_bytes(frame)
        """Bytes of shared memory that its sender holds to be under way."""

    def __call__(self) -> Parts:
        parts = self._parts
        if parts is None:
            frame = self._frame
            if frame is None:
                raise AssertionError("a message without parts")
            fd, self._fd = self._fd, -1
            parts = take_parts(frame, fd)
            self._frame = None
        # Taken once: what holds the message on must not hold its memory too.
        self._parts = _TAKEN
        return parts

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _shared_bytes(frame: Frame) -> int:
    return shared_layout([n & ~IN_SHARED for n in frame.lengths if n & IN_SHARED])[1]


_HALF_IMPORTED = "partially initialized module"
"""In the text of the error when two threads import modules that import each other."""

_IMPORT_PATIENCE = 60.0
"""Seconds that another thread's import may take."""

_IMPORT_PAUSE = 0.02
"""Seconds between two looks whether it has ended."""


def open_parts(parts: Parts) -> Any:
    """Rebuild the value in received parts; for threads that may import the same modules at once.

    Where two threads import modules that import each other, Python lets one of them see a module
    half made rather than let both wait for ever. For messages that is no reason to fail: the other
    thread is about to finish the import.

    Raises:
        BaseException: Whatever the value's classes raise.
    """
    try:
        return loads(parts)
    except (ImportError, AttributeError) as error:
        if _HALF_IMPORTED not in str(error):
            raise
    deadline = time.monotonic() + _IMPORT_PATIENCE
    while True:
        time.sleep(_IMPORT_PAUSE)
        try:
            return loads(parts)
        except (ImportError, AttributeError) as error:
            if _HALF_IMPORTED not in str(error) or time.monotonic() > deadline:
                raise


class Call:
    """A call of an endpoint."""

    __slots__ = (
        "actor",
        "extent",
        "link",
        "method",
        "port",
        "rank",
        "source",
        "source_actor",
        "take",
    )

    def __init__(self, routing: list[Any], take: Any, link: Link | None) -> None:
        (
            _,
            self.actor,
            self.source,
            self.source_actor,
            _,
            self.method,
            self.port,
            self.rank,
            self.extent,
        ) = routing
        self.take = take
        self.link = link


class Construct:
    """The first message of an actor: make the instance."""

    __slots__ = ("link", "port", "source", "take")

    def __init__(self, source: str, take: Any, link: Link | None) -> None:
        self.source = source
        self.take = take
        self.link = link
        self.port = -1


class Stop:
    """End in good order: what is queued before it is handled."""

    __slots__ = ("link", "port", "rank", "reason", "source")

    def __init__(self, reason: str, source: str, port: int, rank: int, link: Link | None) -> None:
        self.reason = reason
        self.source = source
        self.port = port
        self.rank = rank
        self.link = link


class Abort:
    """Die after the message at hand, whatever is queued."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Supervise:
    """Something that the actor owns has failed."""

    __slots__ = ("failure", "number")

    def __init__(self, failure: MeshFailure, number: int) -> None:
        self.failure = failure
        self.number = number
        """Under which the owner's answer is given."""


class UndeliverableMessageEnvelope:
    """A message that did not arrive: who sent it, where to, and why it did not."""

    __slots__ = ("_destination", "_error", "_sender")

    def __init__(self, sender: str, destination: str, error: str) -> None:
        self._sender = sender
        self._destination = destination
        self._error = error

    def sender(self) -> str:
        """Address of the actor that sent it."""
        return self._sender

    def dest(self) -> str:
        """Where it was sent."""
        return self._destination

    def error_msg(self) -> str:
        """Why it did not arrive."""
        return self._error

    def __repr__(self) -> str:
        return f"<undeliverable message from {self._sender} to {self._destination}: {self._error}>"
