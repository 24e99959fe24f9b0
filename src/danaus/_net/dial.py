"""Connecting to an agent: what a connection is for stands in its preface."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Any

import msgspec

from danaus._wire import kinds

__all__ = ["connect", "describe_limit"]

_encode = msgspec.msgpack.Encoder().encode


def describe_limit(error: OSError) -> str:
    """The text of ``error``; where it is the limit of open files, with that and the remedy."""
    text = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        import resource  # only on the way to an error

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        text += f": process {os.getpid()} may have {soft}. Raise the limit with ulimit -n, at most {hard}"
    return text


def connect(address: str, wish: list[Any]) -> socket.socket | None:
    """Connect to an agent and say what is wanted; None when nobody is there.

    Args:
        address: Path of the agent's socket.
        wish: What `danaus._proc.doorway` understands, such as ``["dial", from, to]``.

    Raises:
        OSError: This process may open no more files; the text says how many it may.
    """
    body = _encode(wish)
    try:
        sock = socket.socket(socket.AF_UNIX)
    except OSError as error:
        raise OSError(error.errno, describe_limit(error)) from None
    try:
        sock.connect(address)
        sock.sendall(kinds.PREFACE + struct.pack("<I", len(body)) + body)
    except (ConnectionError, FileNotFoundError):
        sock.close()
        return None
    return sock
