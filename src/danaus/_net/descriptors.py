"""Descriptors as the ancillary data of a Unix socket."""

from __future__ import annotations

import array
import socket
from collections.abc import Iterable, Sequence

__all__ = ["received", "rights"]


def rights(fds: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    """Ancillary data that passes these descriptors."""
    if not fds:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]


def received(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with ancillary data; they are the caller's to close."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds.tolist()
