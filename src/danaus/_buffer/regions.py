"""The table of this process, made when the first buffer is."""

from __future__ import annotations

import os
import threading

from danaus._buffer.table import Table

__all__ = ["host_identity", "regions"]

_lock = threading.Lock()
_table: Table | None = None
_identity = ""


def regions() -> Table:
    """The table of this process; a forked child has one of its own."""
    global _table  # noqa: PLW0603  # one a process
    found = _table
    if found is None or found.pid != os.getpid():
        with _lock:
            if _table is None or _table.pid != os.getpid():
                _table = Table()
            found = _table
    return found


def host_identity() -> str:
    """Equal for processes that can name each other by pid: one boot, one pid namespace."""
    global _identity  # noqa: PLW0603  # it does not change
    if not _identity:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                boot = file.read().strip()
            _identity = f"{boot[:13]}/{os.stat('/proc/self/ns/pid').st_ino}"
        except OSError:
            _identity = f"unknown/{os.urandom(6).hex()}"  # nobody has the same
    return _identity
