"""Actors of the tests of several hosts."""

import os
import signal
from pathlib import Path

from danaus._runtime.process import runtime
from danaus.actor import Actor, HostMesh, Port, endpoint
from danaus.job import JobTrait

PATIENCE = 40.0
"""Seconds for what a job of several hosts must bring."""


class Counter(Actor):
    """Notes what it is sent, in order."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    @endpoint
    def add(self, number: int) -> int:
        self.seen.append(number)
        return number

    @endpoint
    def all(self) -> list[int]:
        return self.seen

    @endpoint
    def length(self, data: bytes) -> int:
        return len(data)

    @endpoint
    def give(self, size: int) -> bytes:
        return bytes(size)

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def ask(self, other: "Counter", number: int) -> int:
        return other.add.call_one(number).get(20)

    @endpoint
    def tell(self, port: Port[int]) -> None:
        port.send(os.getpid())

    @endpoint
    def tell_and_flush(self, port: Port[int]) -> bool:
        """Say something, and wait until the peers have had all that was said."""
        port.send(os.getpid())
        links = [link for link in runtime().routes.all_links() if not link.is_local]
        return bool(links) and all(link.flush(5.0) for link in links)

    @endpoint
    def finds(self, hosts: HostMesh) -> bool:
        """Whether the hosts answer from here."""
        return hosts.initialized.get(20)

    @endpoint
    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @endpoint
    def variables(self) -> dict[str, str]:
        return dict(os.environ)


def call_all(job: JobTrait, path: Path | None = None) -> list[int]:
    """Call actors on the two trainers and the loader of a job; what they answered, by rank."""
    state = job.state(cached_path=path)
    trainers = state.trainers.spawn_procs(per_host={"procs": 2}).spawn("counters", Counter)
    loaders = state.loaders.spawn_procs().spawn("counters", Counter)
    values = list(trainers.add.call(5).get(PATIENCE).values())
    return values + list(loaders.add.call(6).get(PATIENCE).values())
