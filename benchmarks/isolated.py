"""Runs a program with a time limit and ends all that it leaves behind.

Actor systems start daemons that outlive their client; one of those would burden every later
measurement.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["WHERE_SIGNAL", "Outcome", "adopt_orphans", "run_isolated"]

PR_SET_CHILD_SUBREAPER = 36
# What a system may take to go of its own accord once its client has ended.
LEAVE_S = 2.0
KILL_S = 5.0
POLL_S = 0.02
# Asks a program that has run into its limit to write where it stands to stderr.
WHERE_SIGNAL = signal.SIGUSR1
WHERE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a program ended; ``code`` is None when it ran into the time limit."""

    code: int | None
    stdout: str
    stderr: str


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, to find and end them (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_isolated(command: Sequence[str], *, limit_s: float, folder: Path) -> Outcome:
    """Run ``command`` in ``folder`` with a temporary directory of its own.

    It never takes much longer than ``limit_s`` seconds. All descendants are gone when it returns.
    Call `adopt_orphans` once before.
    """
    # Short, for Unix sockets lie below it.
    scratch = tempfile.mkdtemp(prefix="bench-", dir="/tmp")
    environment = {**os.environ, "TMPDIR": scratch}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    )
    try:
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                # Files: a daemon that keeps a pipe open would keep its reader waiting.
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                code = _wait(process, limit_s)
            finally:
                _end(process)
            return Outcome(code=code, stdout=_read(stdout), stderr=_read(stderr))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(WHERE_SIGNAL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(WHERE_S)
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Give descendants a moment to go, then kill them until none is left."""
    running = process.poll() is None
    killing_at = time.monotonic() + (0.0 if running else LEAVE_S)
    deadline = killing_at + KILL_S
    while (pids := _descendants(os.getpid())) and time.monotonic() < deadline:
        if time.monotonic() >= killing_at:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for pid in pids:
            if pid != process.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        process.poll()
        time.sleep(POLL_S)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _descendants(root: int) -> list[int]:
    """Give the ids of all processes below ``root``; an empty list where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may hold blanks and parentheses itself.
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found: list[int] = []
    frontier = [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")
