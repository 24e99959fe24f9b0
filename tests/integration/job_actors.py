"""Actors for the tests of jobs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from danaus.actor import Actor, endpoint


class Process(Actor):
    """Tells of the process that it lives in."""

    @endpoint
    def pids(self) -> list[int]:
        """Its pid, and that of its host's agent: the parent of the zygote that forked it."""
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        return [os.getpid(), int(stat.rpartition(")")[2].split()[1])]

    @endpoint
    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    @endpoint
    def start_sleeper(self) -> int:
        """Start a process that outlives its parent if nobody ends it; returns its pid."""
        return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
