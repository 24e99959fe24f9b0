"""Packets between an agent and its zygote: msgpack values with descriptors, over a socket pair.

Blocking and simple: both ends are single-threaded and trust each other. The agent never waits in a
send, though (`danaus._proc.zygotes`): two ends that both wait for room would wait for ever.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any

import msgspec

from danaus._net.descriptors import received, rights

__all__ = ["MAX_DESCRIPTORS", "encode", "receive", "send"]

MAX_DESCRIPTORS = 180
"""Descriptors in one packet; the kernel's limit is 253."""

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
    sent = sock.sendmsg([data], rights(fds or []), socket.MSG_NOSIGNAL)
    if sent < len(data):
        sock.sendall(data[sent:])


def receive(sock: socket.socket) -> tuple[Any, list[int]] | None:
    """Receive one packet; None when the other end has closed."""
    room = socket.CMSG_SPACE(4 * MAX_DESCRIPTORS)
    fds: list[int] = []
    head = b""
    while len(head) < _length.size:
        data, ancillary, _, _ = sock.recvmsg(_length.size - len(head), room)
        if not data:
            return None
        head += data
        fds += received(ancillary)
    size, _ = _length.unpack(head)
    body = bytearray()
    while len(body) < size:
        data, ancillary, _, _ = sock.recvmsg(size - len(body), room)
        if not data:
            return None
        body += data
    return _decode(body), fds
