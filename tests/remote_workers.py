"""Workers at TCP addresses, as the tests of several hosts start them."""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from danaus.job import JobKey

PATIENCE = 20.0


class Worker:
    """One `danaus worker`, in a process of its own that ends with this one."""

    def __init__(
        self,
        key: Path,
        address: str = "tcp://127.0.0.1:0",
        name: str = "worker",
        before: Sequence[str] = (),
    ) -> None:
        command = [*before, sys.executable, "-m", "danaus_cli", "worker", "--until-eof"]
        command += ["--address", address, "--key", str(key), "--name", name]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors()
        self.report: dict[str, Any] = json.loads(line)
        self.address: str = self.report["address"]

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def end(self) -> int:
        """End it, if it has not ended; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()


@contextmanager
def workers(folder: Path, count: int) -> Generator[tuple[list[Worker], Path]]:
    """So many workers on this machine, and the path of their key."""
    key = folder / "job.key"
    JobKey.make().save(key)
    started: list[Worker] = []
    try:
        # One by one: those that were started are ended if the next cannot be.
        for i in range(count):
            started.append(Worker(key, name=f"host-{i}"))  # noqa: PERF401
        yield started, key
    finally:
        for worker in started:
            worker.end()
