"""Packets between an agent and its zygote: msgpack values with descriptors, over a socket pair.

Blocking and simple: both ends are single-threaded and trust each other. The agent never waits in a
send, though (`danaus._proc.zygotes`): two ends that both wait for room would wait for ever.
"""

from __future__ import annotations

import os
import socket
from struct import Struct
from typing import Any

import msgspec

from danaus._net.descriptors import received, rights

__all__ = ["MAX_DESCRIPTORS", "NO_SIGNAL", "encode", "receive", "send"]

MAX_DESCRIPTORS = 180
"""Descriptors in one packet; the kernel's limit is 253."""

_ROOM = socket.CMSG_SPACE(4 * MAX_DESCRIPTORS)

NO_SIGNAL = int(getattr(socket, "MSG_NOSIGNAL", 0))
"""Python ignores SIGPIPE, where the platform cannot leave it out for one call."""

_length = Struct("<II")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def encode(value: Any, count: int) -> bytes:
    """The bytes of a packet that ``count`` descriptors accompany."""
    body = _encode(value)
    return _length.pack(len(body), count) + body


def send(sock: socket.socket, value: Any, fds: list[int] | None = None) -> None:
    """Send one packet; waits until the other end takes it."""
    data = encode(value, len(fds or ()))
    sent = sock.sendmsg([data], rights(fds or []), NO_SIGNAL)
    if sent < len(data):
        sock.sendall(data[sent:])


def receive(sock: socket.socket) -> tuple[Any, list[int]] | None:
    """Receive one packet; None when the other end has closed."""
    fds: list[int] = []
    head = _read(sock, _length.size, fds)
    body = _read(sock, _length.unpack(head)[0], fds) if head is not None else None
    if body is None:
        for fd in fds:
            os.close(fd)
        return None
    return _decode(body), fds


def _read(sock: socket.socket, size: int, fds: list[int]) -> bytearray | None:
    """So many bytes, and the descriptors that come with them; None at the end of the stream."""
    read = bytearray()
    while len(read) < size:
        try:
            data, ancillary, _, _ = sock.recvmsg(size - len(read), _ROOM)
        except ConnectionError:
            return None  # the other end was killed before it had read all that this one sent
        fds += received(ancillary)
        if not data:
            return None
        read += data
    return read
