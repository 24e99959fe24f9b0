"""Connecting to an agent: what a connection is for stands in its preface."""

from __future__ import annotations

import socket
import struct
from typing import Any

import msgspec

from danaus._wire import kinds

__all__ = ["connect"]

_encode = msgspec.msgpack.Encoder().encode


def connect(address: str, wish: list[Any]) -> socket.socket | None:
    """Connect to an agent and say what is wanted; None when nobody is there.

    Args:
        address: Path of the agent's socket.
        wish: What `danaus._proc.doorway` understands, such as ``["hello", id, pid]``.
    """
    body = _encode(wish)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(address)
        sock.sendall(kinds.PREFACE + struct.pack("<I", len(body)) + body)
    except (ConnectionError, FileNotFoundError):
        sock.close()
        return None
    return sock
