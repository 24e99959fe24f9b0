"""A client of a job, in a process of its own, that a test tells what to do line by line.

Each line is a request in JSON, ``[name, argument...]``, and is answered by one line in JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from danaus.actor import ActorMesh
from danaus.job import ProcessJob
from tests.integration.job_actors import Process

ROOT = Path(__file__).parents[2]


class Client:
    """The test's end of it: a context manager, at whose exit the client is gone."""

    def __init__(self, path: Path | None, meshes: dict[str, int], **env: str) -> None:
        words = [str(path or ""), json.dumps(meshes)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.job_client", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **env},
        )

    def ask(self, *request: Any) -> Any:
        self.send(*request)
        return self.answer()

    def send(self, *request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the client ended: {self.process.communicate()[1]}")
        return json.loads(line)

    def leave(self) -> str:
        """Let its program end; returns what it wrote to stderr."""
        return self.process.communicate(timeout=20)[1]

    def wait_end(self, timeout: float) -> int:
        """Wait until it has ended by itself; the exit code. If it has not: all its stacks."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGUSR1)
            self.process.send_signal(signal.SIGTERM)
            raise AssertionError(f"the client hangs:\n{self.leave()}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
        self.process.wait()


class Served:
    """The client's end."""

    def __init__(self, path: str, meshes: dict[str, int]) -> None:
        self.path = path or None
        self.job = ProcessJob(meshes)
        self.actors: ActorMesh[Process] | None = None

    def state(self) -> str | None:
        """Start or find the job; returns its id."""
        self.hosts = self.job.state(cached_path=self.path)
        return self.job.apply_id

    def spawn(self, mesh: str) -> list[list[int]]:
        """Start a process with an actor on each host; returns pids of each, and of its agent."""
        actors = getattr(self.hosts, mesh).spawn_procs().spawn("process", Process)
        self.actors = actors
        return actors.pids.call().get(20).values()

    def ask(self) -> list[list[int]]:
        """Ask the actors again."""
        assert self.actors is not None
        return self.actors.pids.call().get(20).values()

    def kill(self) -> None:
        """End the job."""
        self.job.kill()


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    served = Served(sys.argv[1], json.loads(sys.argv[2]))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        answer = getattr(served, name)(*arguments)
        plain = answer if answer is None or isinstance(answer, str) else list(answer)
        sys.stdout.write(json.dumps(plain) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
