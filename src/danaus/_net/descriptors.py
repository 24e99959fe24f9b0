"""Descriptors as the ancillary data of a Unix socket."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterable, Sequence

__all__ = ["occupy_standard", "received", "rights"]

_CLOSED_ON_EXEC = hasattr(socket, "MSG_CMSG_CLOEXEC")
"""True where descriptors can be received in that state."""


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
    if not _CLOSED_ON_EXEC:
        for fd in fds:
            os.set_inheritable(fd, False)
    return fds.tolist()


def occupy_standard() -> None:
    """Open what a daemon has closed of descriptors 0 to 2, to nowhere.

    Otherwise sockets of ours come to lie there: what C code or a child process writes to its
    standard error is then a frame to a peer, and a child that is given its own streams loses them.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
