"""Proof that a job leaves nothing behind: what it has on this machine, and what is left of that.

The kernel is asked (``/proc``), not the runtime that is under examination. While the job runs,
`take_inventory` lists its processes, the sockets that they have bound, and the files and folders
that they made for themselves. Afterwards `find_remains` looks for each of them.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Inventory", "Process", "Remains", "find_remains", "look_around", "take_inventory"]

PROC = Path("/proc")
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # looked at, never written
#: How long a job may take to vanish, in seconds, and how often that is looked up.
PATIENCE_S = 5.0
INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from a later one that is given the same number."""

    pid: int
    started: int
    """Ticks after the machine's start, field 22 of ``/proc/PID/stat``."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a job has on this machine."""

    processes: frozenset[Process] = frozenset()
    sockets: frozenset[str] = frozenset()
    """Paths of sockets that its processes, or the client for it, have bound."""
    files: frozenset[str] = frozenset()
    """Files that its processes hold open and folders around its sockets, made since it began."""
    taken: float = 0.0
    """When this was taken, in seconds of the epoch."""

    def __or__(self, other: Inventory) -> Inventory:
        """What is in either."""
        return Inventory(
            self.processes | other.processes,
            self.sockets | other.sockets,
            self.files | other.files,
            max(self.taken, other.taken),
        )


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of a job that has ended; nothing, if it was tidy."""

    processes: list[str] = field(default_factory=list[str])
    """Those that still exist, each as number and command."""
    sockets: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    waited_s: float = 0.0
    """How long it took until nothing was left, or until patience was."""

    def __bool__(self) -> bool:
        """Whether anything is left."""
        return bool(self.processes or self.sockets or self.files)


@dataclass(frozen=True, slots=True)
class _Status:
    process: Process
    parent: int


def look_around() -> Inventory:
    """List what there is before the job begins, hence is not its own: folders and the like."""
    everyone = {status.process.pid: status for status in _iter_processes()}
    own = frozenset(s.process for pid, s in everyone.items() if _descends(pid, everyone))
    paths = _bound_sockets()
    sockets = frozenset(paths[link] for link in _links(os.getpid()) if link in paths)
    return Inventory(own, sockets, frozenset(_iter_folders()), time.time())


def take_inventory(mark: str, known: Inventory) -> Inventory:
    """List what a job has on this machine now.

    Processes are its own if they descend from the caller or carry ``mark`` in their environment.

    Args:
        mark: ``NAME=value``, given to the job's hosts and to nobody else.
        known: What `look_around` found before the job began.

    Returns:
        The inventory; an empty one where there is no ``/proc``.
    """
    everyone = {status.process.pid: status for status in _iter_processes()}
    processes = frozenset(
        status.process
        for pid, status in everyone.items()
        if pid != os.getpid() and (_descends(pid, everyone) or _carries(pid, mark))
    )
    processes -= known.processes
    client = set(_links(os.getpid()))
    links = {link for process in processes for link in _links(process.pid)}
    paths = _bound_sockets()
    sockets = frozenset(paths[link] for link in links | client if link in paths) - known.sockets
    folders = {str(parent) for path in sockets for parent in Path(path).parents}
    # What the client holds open too is where the user has sent its output.
    files = {link for link in links - client if _is_file_made_since(link, known.taken)}
    return Inventory(processes, sockets, frozenset(files | folders) - known.files, time.time())


def find_remains(
    inventory: Inventory, mark: str, known: Inventory, *, patience_s: float = PATIENCE_S
) -> Remains:
    """Look for what a job had, until nothing is left or for ``patience_s`` seconds.

    Args:
        inventory: What it had.
        mark: As for `take_inventory`: processes and sockets that nobody has seen before count too.
        known: What `look_around` found before the job began.
        patience_s: Seconds after which what is left, is left.
    """
    began = time.monotonic()
    while True:
        now = take_inventory(mark, known)
        alive = frozenset(status.process for status in _iter_processes())
        remains = Remains(
            [_described(process) for process in (inventory.processes & alive) | now.processes],
            [path for path in sorted(inventory.sockets | now.sockets) if os.path.lexists(path)],
            [path for path in sorted(inventory.files | now.files) if os.path.lexists(path)],
            time.monotonic() - began,
        )
        if not remains or remains.waited_s >= patience_s:
            return remains
        time.sleep(INTERVAL_S)


def _iter_processes() -> Iterator[_Status]:
    for folder in PROC.glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text("utf-8", "replace")
        except OSError:  # it has ended since
            continue
        # The command stands in parentheses and may itself hold parentheses and spaces.
        fields = text[text.rindex(")") + 2 :].split()
        yield _Status(Process(int(folder.name), int(fields[19])), int(fields[1]))


def _descends(pid: int, everyone: Mapping[int, _Status]) -> bool:
    while pid in everyone:
        pid = everyone[pid].parent
        if pid == os.getpid():
            return True
    return False


def _carries(pid: int, mark: str) -> bool:
    try:
        return mark.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _links(pid: int) -> Iterator[str]:
    """What the descriptors of a process stand for: paths, or names such as "socket:[4711]"."""
    try:
        for link in (PROC / str(pid) / "fd").iterdir():
            try:
                yield str(link.readlink())
            except OSError:  # it was closed since
                continue
    except OSError:  # the process has ended, or is another user's
        return


def _bound_sockets() -> dict[str, str]:
    """The path of each Unix socket that has one in the file system, by its descriptors' link."""
    try:
        lines = (PROC / "net" / "unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return {}
    columns = (line.split(maxsplit=7)[6:] for line in lines)
    return {
        f"socket:[{node}]": path for node, *paths in columns for path in paths if path[0] == "/"
    }


def _iter_folders() -> Iterator[str]:
    """The places for temporary things, all above them, and two levels of folders in them."""
    places = [
        tempfile.gettempdir(),
        os.environ.get("XDG_RUNTIME_DIR", ""),
        SHARED_MEMORY,
        str(Path.cwd()),
    ]
    for place in filter(None, places):
        yield place
        yield from map(str, Path(place).parents)
        for folder in _folders_in(place):
            yield folder
            yield from _folders_in(folder)


def _folders_in(place: str) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:  # it is gone, or another user's
        return []


def _is_file_made_since(path: str, since: float) -> bool:
    try:
        status = os.lstat(path)
    except OSError:  # also what is no path at all, such as "pipe:[4711]"
        return False
    is_own = status.st_uid == os.getuid() and stat.S_ISREG(status.st_mode)
    return is_own and status.st_ctime >= since


def _described(process: Process) -> str:
    try:
        command = (PROC / str(process.pid) / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        command = b""
    return f"{process.pid} {command.decode('utf-8', 'replace').strip() or '(defunct)'}".strip()
