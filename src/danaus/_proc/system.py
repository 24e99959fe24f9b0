"""The kernel's primitives, each with a fallback where the platform lacks it.

The variable DANAUS_PORTABLE=1 makes the fallbacks be used where they are not needed, for tests.
What they cannot do: a descendant of a proc that died, with a session of its own, is not found; and
a proc notices the end of its zygote by its control link.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable

__all__ = [
    "NATIVE",
    "become_subreaper",
    "children_of",
    "die_with_parent",
    "is_running",
    "kill_tree",
    "open_pidfd",
    "open_unnamed",
    "peer_credentials",
    "raise_file_limit",
    "reap",
    "set_file_limit",
    "signal_group",
    "start_time",
]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"

NATIVE = _LINUX and os.environ.get("DANAUS_PORTABLE") != "1"
"""True where Linux's own primitives are used."""


def _prctl(option: int, value: int) -> bool:
    if not NATIVE:
        return False
    import ctypes

    return ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when its parent's thread ends.

    Returns False when the parent is gone already. Where the kernel cannot do it, the end of the
    control link has to do.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process instead of process 1."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; -1 where there is none."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None or not NATIVE:
        return -1
    try:
        return opener(pid)
    except OSError:
        return -1


def peer_credentials(sock: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process at the other end of a Unix socket; pid is 0 where unknown."""
    if hasattr(socket, "SO_PEERCRED"):
        data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", data)
        return (pid if NATIVE else 0), uid
    local_peercred, xucred_size = 1, 76  # macOS: struct xucred, version and uid come first
    data = sock.getsockopt(0, local_peercred, xucred_size)
    _, uid = struct.unpack_from("=II", data)
    return 0, uid


def raise_file_limit() -> int:
    """Let this process open as many files as it may. Returns how many it could open before."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        set_file_limit(hard)
    return soft


def set_file_limit(count: int) -> None:
    """Let this process open so many files, if it may."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    except (OSError, ValueError):
        return  # a platform whose hard limit says more than it lets anybody have


def open_unnamed() -> int:
    """A file without a name: one in memory, or a temporary one that is removed already."""
    if NATIVE:
        return os.memfd_create("danaus", os.MFD_CLOEXEC)
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="danaus-")
    os.unlink(path)
    return descriptor


def reap(before: Callable[[int], None]) -> tuple[int, int] | None:
    """Reap one child that has ended: its pid and wait status; None when there is none.

    ``before`` is called with the pid, while it still belongs to the child wherever the platform
    lets us look before reaping.
    """
    try:
        if NATIVE:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return None
            before(ended.si_pid)
            return os.waitpid(ended.si_pid, 0)
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    if pid == 0:
        return None
    before(pid)
    return pid, status


def start_time(pid: int) -> int:
    """When the process started, in clock ticks since boot: with the pid, an identity. 0: gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def is_running(pid: int, started: int) -> bool:
    """True while the process that had this start time runs; a zombie does not.

    Where the platform does not tell start times (they are 0), the pid has to do.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        return int(fields[19]) == started and fields[0] not in (b"Z", b"X")
    except (OSError, IndexError, ValueError):
        return not _LINUX and started == 0 and _answers(pid)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def children_of(pid: int) -> list[int]:
    """Pids of the living and dead children of a process, however many threads it has."""
    if not NATIVE:
        return _children_by_ps(pid)
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    except OSError:
        return _children_by_scan(pid)
    return found


def _children_by_scan(pid: int) -> list[int]:
    found: list[int] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if parent == pid:
                found.append(int(name))
    return found


def _children_by_ps(pid: int) -> list[int]:
    """By the one list of processes that all platforms have."""
    import subprocess

    command = ["ps", "-axo", "pid=,ppid="]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    rows = (line.split() for line in listed.splitlines())
    return [int(child) for child, parent in rows if int(parent) == pid]


def signal_group(pid: int, number: int) -> None:
    """Signal a process and its group, if they are still there."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_tree(pid: int) -> None:
    """Kill a process and its living descendants, deepest first."""
    for child in children_of(pid):
        kill_tree(child)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
