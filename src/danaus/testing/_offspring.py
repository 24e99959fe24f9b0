"""Which living processes descend from this one, orphans included.

A parent's death hides its children: they are handed to another process. Hence two marks of descent
count: the chain of parents, and a variable in the environment that `mark_offspring` sets here and
every process started from here inherits. Where there is no /proc, ps tells the chain of parents
alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "Process",
    "mark_offspring",
    "offspring",
    "offspring_from_ps",
    "offspring_from_table",
    "parse_proc",
    "parse_ps",
]

MARK = "DANAUS_TEST_RUN"
"""Environment variable whose value names the test run that a process belongs to."""

_PROC = Path("/proc")
_FIELDS_OF_PS = "pid=,ppid=,stat=,lstart=,command="
_WORDS_OF_LSTART = 5


@dataclass(frozen=True, slots=True)
class Process:
    """One process; equal to another if and only if it is the same one, not just the same pid."""

    pid: int
    started: str
    """Start time in the system's own notation: with the pid it names a process for ever."""
    parent: int = field(compare=False)
    state: str = field(compare=False)
    """One letter as ps prints it; ``Z`` is a process that its parent has not reaped."""
    command: str = field(compare=False)

    def __str__(self) -> str:
        return f"process {self.pid} (parent {self.parent}, state {self.state}): {self.command}"


def mark_offspring() -> str:
    """Mark this process's environment, so that `offspring` also finds orphans from now on.

    A run inside a run keeps the outer mark as a prefix: both find what the inner one starts.

    Returns:
        The mark.
    """
    outer = os.environ.get(MARK)
    mark = f"{outer}/{os.getpid()}" if outer else str(os.getpid())
    os.environ[MARK] = mark
    return mark


def offspring() -> frozenset[Process]:
    """Return every process that descends from this one, without this one."""
    if not _PROC.joinpath("self", "stat").exists():
        return offspring_from_ps()
    table = list(_read_proc())
    found = offspring_from_table(table, os.getpid())
    mark = os.environ.get(MARK)
    return found | _marked(table, mark) if mark else found


def offspring_from_table(table: Iterable[Process], root: int) -> frozenset[Process]:
    """Return the processes of ``table`` whose chain of parents leads to the pid ``root``."""
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    found: set[Process] = set()
    pending = [root]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in found:
                found.add(child)
                pending.append(child.pid)
    return frozenset(found)


def offspring_from_ps() -> frozenset[Process]:
    """Return what ps knows of this process's descendants, ps itself left out."""
    command = ["ps", "-axo", _FIELDS_OF_PS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listing:
        text, _ = listing.communicate()
    table = [process for process in parse_ps(text) if process.pid != listing.pid]
    return offspring_from_table(table, os.getpid())


def parse_ps(text: str) -> Iterator[Process]:
    """Yield the processes of a listing with the columns that `offspring_from_ps` asks for."""
    for line in text.splitlines():
        pid, parent, state, rest = line.split(None, 3)
        words = rest.split(None, _WORDS_OF_LSTART)
        started = " ".join(words[:_WORDS_OF_LSTART])
        command = words[_WORDS_OF_LSTART] if len(words) > _WORDS_OF_LSTART else ""
        yield Process(int(pid), started, int(parent), state[0], command)


def _read_proc() -> Iterator[Process]:
    for name in os.listdir(_PROC):
        if name.isdigit():
            try:
                stat = _read(name, "stat")
            except OSError:  # it ended meanwhile
                continue
            yield parse_proc(int(name), stat.decode(errors="replace"))


def parse_proc(pid: int, stat: str) -> Process:
    """Return the process that a ``/proc/<pid>/stat`` describes."""
    # proc(5): the name stands in parentheses and may itself hold some; field 22 is the start time.
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    return Process(pid, fields[19], int(fields[1]), fields[0], head.partition("(")[2])


def _marked(table: list[Process], mark: str) -> frozenset[Process]:
    me = os.getpid()
    mine = next(int(process.started) for process in table if process.pid == me)
    return frozenset(
        process
        for process in table
        if int(process.started) >= mine and process.pid != me and _has_mark(process.pid, mark)
    )


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environment = _read(str(pid), "environ").split(b"\0")
    except OSError:  # ended, or another user's
        return False
    wanted = f"{MARK}={mark}".encode()
    return any(entry == wanted or entry.startswith(wanted + b"/") for entry in environment)


def _read(pid: str, name: str) -> bytes:
    with open(f"{_PROC}/{pid}/{name}", "rb", buffering=0) as file:
        return file.read()
