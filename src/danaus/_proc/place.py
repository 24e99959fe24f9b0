"""A host's directory: private, with a short path, and gone with the host.

The directory of a host that a proc started lies in that of the proc's own host. So it goes at the
latest with that one, whose zygote kills what is left of its procs without asking. Where a host was
killed with its zygote, the next host that ends in good order removes what is left (`sweep`).
"""

from __future__ import annotations

import os
import socket
import time
import zlib
from collections.abc import Callable

__all__ = ["ERRORS", "SOCKET", "is_elsewhere", "make_directory", "remove_directory", "sweep"]

SOCKET = "s"
"""Name of the agent's socket in the directory; one letter, for paths of sockets are limited."""

ERRORS = "agent.err"
"""Name of the file that the agent's own errors go to."""

_PREFIX = "danaus-"

_NAME = 12
"""Length of the name of a directory after its prefix: the machine, and its own."""

_ANSWERS = 2.0
"""Seconds after which the socket of a new directory listens: its maker needs microseconds."""

_PATH_LIMIT = 100
"""Longest path of a Unix socket that every platform takes, in bytes."""


def make_directory(within: str = "") -> str:
    """Make a new directory for a host.

    Args:
        within: Directory of the host that this one goes with, if it does.

    Raises:
        OSError: There is no place for it.
    """
    bases = [within, os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/var/tmp"]  # noqa: S108  # 0700
    errors: list[str] = []
    for base in bases:
        if not base or len(base) > _PATH_LIMIT - 30 or not os.path.isdir(base):
            continue
        path = os.path.join(base, f"{_PREFIX}{_machine()}{os.urandom(4).hex()}")
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            errors.append(str(error))
            continue
        return path
    raise OSError(
        "no directory for the host's socket could be made; set XDG_RUNTIME_DIR to a writable "
        f"directory with a short path ({'; '.join(errors)})"
    )


def is_elsewhere(address: str) -> bool:
    """Whether a path of a host's socket was made on another machine, or before this one's boot."""
    name = os.path.basename(os.path.dirname(address))
    made = name.removeprefix(_PREFIX)
    return len(made) == _NAME and made != name and not made.startswith(_machine())


def _machine() -> str:
    """Four digits that tell this run of this machine from others that share its file system."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            identity = file.read()
    except OSError:
        identity = os.uname().nodename.encode()
    return f"{zlib.crc32(identity) & 0xFFFF:04x}"


def sweep(base: str) -> None:
    """Remove what hosts of this machine and user left in ``base`` when they were killed.

    In their directories is a socket to which nobody listens any more.
    """
    start = f"{_PREFIX}{_machine()}"
    try:
        names = os.listdir(base)
    except OSError:
        return
    for name in names:
        path = os.path.join(base, name)
        if name.startswith(start) and _is_stale(path):
            remove_directory(path)


def _is_stale(directory: str) -> bool:
    try:
        about = os.stat(directory)
        if about.st_uid != os.getuid() or time.time() - about.st_mtime < _ANSWERS:
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)  # noqa: FBT003  # it takes no keyword
            probe.connect(os.path.join(directory, SOCKET))
    except ConnectionRefusedError:
        return True
    except OSError:
        return False  # it is busy, or no host's, or gone
    return False


def remove_directory(directory: str) -> None:
    """Remove a host's directory, if it is one, and those of hosts in it; nothing else."""
    if not os.path.basename(directory).startswith(_PREFIX):
        return
    try:
        names = os.listdir(directory)
    except OSError:
        return  # somebody was quicker
    for name in names:
        path = os.path.join(directory, name)
        if name in (SOCKET, ERRORS):
            _attempt(os.unlink, path)
        else:
            remove_directory(path)
    _attempt(os.rmdir, directory)


def _attempt(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:
        return  # it is gone, or something of somebody else lies in it
