"""A scheduler of your own: a class of jobs that starts workers wherever you can start programs.

Here it is a pool of processes, reached over TCP with the job's key as other machines would be.

Run it: python examples/own_scheduler.py
"""

import json
import os
from subprocess import PIPE, Popen

from danaus.actor import Actor, endpoint
from danaus.job import JobKey, RemoteJob, worker_command


class PoolJob(RemoteJob):
    """Hosts that are processes of this machine, and end with this client."""

    _is_shared = False

    def __init__(self, meshes: dict[str, int]) -> None:
        super().__init__()
        self.meshes = meshes
        self._pool: list[Popen[str]] = []

    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        return {mesh: [self._start(key) for _ in range(n)] for mesh, n in self.meshes.items()}

    def _start(self, key: JobKey) -> str:
        command = worker_command(address="tcp://127.0.0.1:0", until_eof=True)
        worker = Popen(command, stdin=PIPE, stdout=PIPE, text=True)
        self._pool.append(worker)
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(key.pem)
        worker.stdin.flush()
        line = worker.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with code {worker.wait()}")
        return json.loads(line)["address"]

    def _end(self) -> None:
        for worker in self._pool:
            worker.communicate()  # the end of its input is its own
        self._pool = []


class Clerk(Actor):
    @endpoint
    def host(self) -> int:
        return os.getppid()  # what the host forks its processes from


if __name__ == "__main__":
    job = PoolJob({"clerks": 3})
    clerks = job.state().clerks.spawn_procs(per_host={"procs": 2}).spawn("clerks", Clerk)
    print(f"{len(clerks)} clerks on {len(set(clerks.host.call().get().values()))} hosts")
    job.kill()
    print(job)
