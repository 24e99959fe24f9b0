"""A host's directory: private, with a short path, and gone with the host.

The directory of a host that a proc started lies in that of the proc's own host. So it goes at the
latest with that one, whose zygote kills what is left of its procs without asking.
"""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["ERRORS", "SOCKET", "make_directory", "remove_directory"]

SOCKET = "s"
"""Name of the agent's socket in the directory; one letter, for paths of sockets are limited."""

ERRORS = "agent.err"
"""Name of the file that the agent's own errors go to."""

_PREFIX = "danaus-"

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
        path = os.path.join(base, f"{_PREFIX}{os.urandom(6).hex()}")
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
