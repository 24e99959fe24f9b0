"""What did a test leave behind: processes, descriptors, threads and files, before against after.

`snapshot` records what there is, `find_leaks` waits a little for the stragglers and returns what is
new, `leak_check` does both around a block::

    with leak_check():
        host = this_host()
        ...
        shutdown_context().get(10)

Whoever writes tests for a program that uses Danaus can do the same in a fixture.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from danaus.testing._offspring import Process, mark_offspring, offspring

__all__ = [
    "GRACE",
    "KINDS",
    "LeakError",
    "Leaks",
    "Process",
    "Snapshot",
    "find_leaks",
    "leak_check",
    "mark_offspring",
    "snapshot",
]

KINDS = ("processes", "fds", "threads", "files")
"""The kinds of things that can be left behind."""

GRACE = 5.0
"""Seconds that all which was ended may take to be gone: the promise of Danaus itself."""

_FIRST_POLL = 0.001
_LONGEST_POLL = 0.05
"""Seconds between two looks, doubling from the first to the longest."""


class LeakError(AssertionError):
    """Something was left behind; ``leaks`` says what."""

    def __init__(self, leaks: Leaks) -> None:
        super().__init__(leaks)
        self.leaks = leaks

    def __str__(self) -> str:
        return str(self.leaks)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there was at one moment."""

    processes: frozenset[Process]
    """All descendants of this process, orphans included if `mark_offspring` was called before."""
    fds: frozenset[tuple[int, str]]
    """Open descriptors of this process, each with what it refers to."""
    threads: frozenset[threading.Thread]
    """Python threads of this process. Threads that a C library keeps are its own affair."""
    files: frozenset[str]
    """Paths below the directories for run-time files whose first part contains ``danaus``."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """What is there after but was not there before; false if nothing is."""

    processes: tuple[Process, ...] = ()
    fds: tuple[tuple[int, str], ...] = ()
    threads: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.processes or self.fds or self.threads or self.files)

    def __str__(self) -> str:
        lines = [str(process) for process in self.processes]
        lines += [f"descriptor {fd}: {target}" for fd, target in self.fds]
        lines += [f"thread {name!r}" for name in self.threads]
        lines += [f"file {path}" for path in self.files]
        return "\n  ".join(["left behind:", *lines]) if lines else "nothing left behind"

    def kill(self) -> None:
        """Kill and reap the processes, so that they do not disturb what runs next."""
        for process in offspring() & frozenset(self.processes):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            if process.parent == os.getpid():
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, 0)


def snapshot() -> Snapshot:
    """Record what this process and its descendants hold now. Costs about a millisecond."""
    return Snapshot(
        processes=offspring(),
        fds=_open_fds(),
        threads=frozenset(threading.enumerate()),
        files=frozenset(_runtime_files()),
    )


def find_leaks(before: Snapshot, *, ignore: Iterable[str] = (), grace: float = GRACE) -> Leaks:
    """Return what is there now and was not in ``before``, once nothing is or the time is over.

    Objects that nobody refers to any more are collected first.

    Args:
        before: Where to compare from.
        ignore: Kinds that may be left, of `KINDS`.
        grace: Seconds to wait for stragglers at most; a clean state returns at once.

    Raises:
        ValueError: An unknown kind in ``ignore``.
    """
    ignored = _checked_kinds(ignore)
    deadline = time.monotonic() + grace
    pause = _FIRST_POLL
    leaks = _compare(before, snapshot(), ignored)
    if leaks:
        gc.collect()
        leaks = _compare(before, snapshot(), ignored)
    while leaks and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_POLL)
        leaks = _compare(before, snapshot(), ignored)
    return leaks


@contextmanager
def leak_check(*, ignore: Iterable[str] = (), grace: float = GRACE) -> Generator[None]:
    """Fail if the block leaves anything behind; see `find_leaks` for the arguments.

    A block that raises is not checked: its traceback keeps objects alive.

    Raises:
        LeakError: Something was left.
    """
    ignored = _checked_kinds(ignore)
    before = snapshot()
    yield
    if leaks := find_leaks(before, ignore=ignored, grace=grace):
        raise LeakError(leaks)


def _checked_kinds(kinds: Iterable[str]) -> frozenset[str]:
    chosen = frozenset(kinds)
    if unknown := chosen - set(KINDS):
        raise ValueError(f"leak check: no kind {min(unknown)!r}. Kinds are {', '.join(KINDS)}.")
    return chosen


def _compare(before: Snapshot, after: Snapshot, ignored: frozenset[str]) -> Leaks:
    processes = after.processes - before.processes
    threads = (thread.name for thread in after.threads - before.threads if thread.is_alive())
    return Leaks(
        processes=() if "processes" in ignored else tuple(sorted(processes, key=lambda p: p.pid)),
        fds=() if "fds" in ignored else tuple(sorted(after.fds - before.fds)),
        threads=() if "threads" in ignored else tuple(sorted(threads)),
        files=() if "files" in ignored else tuple(sorted(after.files - before.files)),
    )


def _open_fds() -> frozenset[tuple[int, str]]:
    directory = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    found: set[tuple[int, str]] = set()
    for name in os.listdir(directory):
        try:
            found.add((int(name), _target_of(directory, name)))
        except OSError:  # the descriptor that listed the directory
            continue
    return frozenset(found)


def _target_of(directory: str, name: str) -> str:
    if directory == "/dev/fd":
        about = os.fstat(int(name))
        return f"device {about.st_dev} inode {about.st_ino}"
    # A file deleted while it is open is still the same descriptor.
    return os.readlink(f"{directory}/{name}").removesuffix(" (deleted)")


def _runtime_files() -> Iterator[str]:
    roots = {Path("/dev/shm"), Path(tempfile.gettempdir())}  # noqa: S108  # POSIX shared memory
    if runtime_dir := os.environ.get("XDG_RUNTIME_DIR"):
        roots.add(Path(runtime_dir))
    for root in roots:
        if root.is_dir():
            for path in root.glob("*danaus*"):
                yield str(path)
                yield from (str(below) for below in path.rglob("*"))
