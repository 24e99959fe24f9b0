"""What is to be written to an encrypted connection, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from danaus._wire.frame import encode_small

if TYPE_CHECKING:
    from danaus._net.link import Part
    from danaus._net.tls import TlsConnection

__all__ = ["SendQueue"]

_encode = msgspec.msgpack.Encoder().encode

_JOINED = 16 * 1024
"""Bytes of small frames that are written together: one record of TLS."""


class SendQueue:
    """Buffers on their way to one connection. Not safe for several threads.

    Attributes:
        nbytes: Bytes that the connection has not taken yet.
        awaits_room: True while the driving thread is to be told of room to write.
    """

    __slots__ = ("_buffers", "awaits_room", "nbytes")

    def __init__(self) -> None:
        self._buffers: deque[Part] = deque()
        self.nbytes = 0
        self.awaits_room = False

    def put(self, buffers: Sequence[Part]) -> None:
        """Append the buffers of a frame; nobody may change them any more."""
        for part in buffers:
            if len(part):
                self._buffers.append(part)
                self.nbytes += len(part)

    def put_frame(self, kind: int, *routing: str | int) -> None:
        """Append a frame of the link itself."""
        self.put((encode_small(kind, _encode(routing), b""),))

    def clear(self) -> None:
        """Forget all: the connection is gone."""
        self._buffers.clear()
        self.nbytes = 0
        self.awaits_room = False

    def pump(self, connection: TlsConnection) -> bool:
        """Write what the connection takes; True when there is room again for whoever waits.

        Raises:
            OSError: The connection is broken.
        """
        buffers = self._buffers
        while buffers:
            data = buffers[0]
            if len(data) < _JOINED and len(buffers) > 1:
                data = self._join()
            taken = connection.send(data)
            if not taken:
                # What was offered stays the first, as TLS wants it.
                self.awaits_room = True
                connection.watch(room=True)
                return False
            self.nbytes -= taken
            if taken == len(data):
                buffers.popleft()
            else:
                buffers[0] = memoryview(data)[taken:]
        if self.awaits_room:
            self.awaits_room = False
            connection.watch(room=False)
            return True
        return False

    def _join(self) -> Part:
        """Put small buffers together; the result is the first of the queue."""
        buffers = self._buffers
        joined = [buffers.popleft()]
        size = len(joined[0])
        while buffers and size + len(buffers[0]) <= _JOINED:
            size += len(buffers[0])
            joined.append(buffers.popleft())
        data = b"".join(joined) if len(joined) > 1 else joined[0]
        buffers.appendleft(data)
        return data
