"""Hosts of this machine that run, and their end, whoever started them.

A host is known by its agent's pid and start time, so that a number that the kernel has given to
another process since is never signalled. `end_hosts` asks first and kills later, and leaves no
process, socket or directory of a host behind.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from danaus._proc.lease import HostSilent, Lease
from danaus._proc.place import ERRORS, remove_directory
from danaus._proc.system import children_of, is_running, open_pidfd, start_time

__all__ = ["PATIENCE", "RunningHost", "end_group", "end_hosts"]

PATIENCE = 5.0
"""Seconds in which a host that was asked to end should have: its procs get 2 s to finish, 1 s
after SIGTERM."""

_AFTER_SIGTERM = 1.0
"""Seconds between SIGTERM and SIGKILL."""

_AFTER_SIGKILL = 2.0
"""Seconds for the zygote of a killed agent to end what the agent had started."""

_POLL = 0.02
"""Seconds between two looks where the kernel cannot tell of a process's end."""


@dataclass(frozen=True, slots=True)
class RunningHost:
    """An agent on this machine.

    Attributes:
        name: Name of the host, as users see it.
        address: Path of the agent's socket, in a directory of its own.
        pid: The agent's process.
        started: Its start time in clock ticks since boot; 0 where the platform does not tell.
    """

    name: str
    address: str
    pid: int
    started: int

    def is_running(self) -> bool:
        """True while the agent runs."""
        return is_running(self.pid, self.started)

    def last_words(self) -> str:
        """What the agent wrote to its standard error; empty when it has ended in good order."""
        try:
            path = os.path.join(os.path.dirname(self.address), ERRORS)
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()[-2000:].strip()
        except OSError:
            return ""


def end_hosts(hosts: Sequence[RunningHost], patience: float = PATIENCE) -> None:
    """End hosts and all that runs on them; those that have ended already cost nothing.

    They are asked to, get SIGTERM after ``patience``, SIGKILL a second later. Children of this
    process among them are reaped.

    Args:
        hosts: The hosts, started by this process or by another.
        patience: Seconds in which they may end by themselves, all together.
    """
    with ExitStack() as stack:
        for host in hosts:
            _ask_to_end(host, stack)
        left = _wait_gone(hosts, patience)
    for host in left:
        _signal(host.pid, signal.SIGTERM)
    for host in _wait_gone(left, _AFTER_SIGTERM):
        _kill(host)
    for host in hosts:
        _reap(host)
        remove_directory(os.path.dirname(host.address))


def end_group(pid: int, started: int) -> None:
    """End a process and its group: SIGTERM, and a second later SIGKILL. It is not reaped.

    Args:
        pid: The group's leader.
        started: Its start time; nothing happens if it is another process by now, or has ended.
    """
    leader = RunningHost("", "", pid, started)
    if not leader.is_running():
        return
    os.killpg(pid, signal.SIGTERM)
    _wait_gone([leader], _AFTER_SIGTERM)
    try:
        # Also where the leader has ended: the number is not given away while the group has members.
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # the latter: only zombies are left, on macOS
        return
    _wait_gone([leader], _AFTER_SIGKILL)


def _ask_to_end(host: RunningHost, stack: ExitStack) -> None:
    if not host.is_running():
        return
    try:
        lease = Lease(host.address)
        # Its connection stays until the host has ended: what it says must be read first.
        stack.callback(lease.close)
        lease.ask_to_end()
    except HostSilent:
        return  # it is ending already, or cannot: the signals come next


def _wait_gone(hosts: Iterable[RunningHost], timeout: float) -> list[RunningHost]:
    """Wait for their ends; return those that run when the time is up."""
    deadline = time.monotonic() + timeout
    left = [host for host in hosts if host.is_running()]
    while left and time.monotonic() < deadline:
        _wait_for_one(left, deadline)
        left = [host for host in left if host.is_running()]
    return left


def _wait_for_one(hosts: list[RunningHost], deadline: float) -> None:
    """Return once one of them may have ended, or at the deadline."""
    poll = select.poll()
    descriptors: list[int] = []
    try:
        for host in hosts:
            descriptor = open_pidfd(host.pid)
            if descriptor >= 0:
                descriptors.append(descriptor)
                poll.register(descriptor, select.POLLIN)
        left = max(0.0, deadline - time.monotonic())
        if len(descriptors) < len(hosts):
            left = min(left, _POLL)
        poll.poll(left * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _kill(host: RunningHost) -> None:
    """Kill an agent. Its zygote then ends what it had started; what that leaves is killed too."""
    below = [(pid, start_time(pid)) for pid in _descendants(host.pid)]
    _signal(host.pid, signal.SIGKILL)

    def gone() -> bool:
        return not any(is_running(pid, started) for pid, started in below)

    _wait_gone([host], _AFTER_SIGKILL)
    if not _wait_until(gone, _AFTER_SIGKILL):
        for pid, started in below:
            if is_running(pid, started):
                _signal(pid, signal.SIGKILL)
        _wait_until(gone, _AFTER_SIGKILL)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for child in children_of(pid):
        found.append(child)
        found.extend(_descendants(child))
    return found


def _wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _reap(host: RunningHost) -> None:
    if start_time(host.pid) != host.started:
        return  # it was reaped, and the number may be another child's now
    try:
        os.waitpid(host.pid, os.WNOHANG)
    except ChildProcessError:
        return  # another process's child
