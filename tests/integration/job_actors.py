"""Actors for the tests of jobs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from danaus.actor import Actor, endpoint
from danaus.job import ProcessJob


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
    def start_job(self, hosts: int) -> list[int]:
        """Start a job of this actor's own, with a process on each host; returns their pids."""
        self.job = ProcessJob({"hosts": hosts})
        inner = self.job.state(cached_path=None).hosts.spawn_procs().spawn("inner", Process)
        return [pid for pair in inner.pids.call().get(20).values() for pid in pair]

    @endpoint
    def start_sleeper(self) -> int:
        """Start a process that outlives its parent if nobody ends it; returns its pid."""
        return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
