"""Supervision: who is told when a process dies, and what happens then.

Everything has an owner: what an actor spawns belongs to it. When a part dies, the owner's
`__supervise__` is asked. True means "handled"; otherwise the owner fails too, and its own owner is
asked, up to the client, where `unhandled_fault_hook` is called. Unless it is replaced, the hook
ends the script.

Here a foreman owns three workers. The first death is handled: the foreman starts the rank again in
place, and the other ranks keep what they have. The second is not, and reaches the client.

Run it: python examples/supervision.py
"""

from __future__ import annotations

import os
import signal
import threading

import danaus.actor
from danaus.actor import Actor, MeshFailure, Port, SupervisionError, endpoint, this_host


class Worker(Actor):
    """Remembers how many tasks it has done."""

    def __init__(self) -> None:
        self.tasks = 0

    @endpoint
    def work(self) -> int:
        self.tasks += 1
        return self.tasks

    @endpoint
    def pid(self) -> int:
        return os.getpid()


class Foreman(Actor):
    """Owns the workers, and replaces those that die while it has spare ones."""

    def __init__(self, spares: int, reports: Port[str]) -> None:
        self.spares = spares
        self.reports = reports
        self.procs = this_host().spawn_procs(per_host={"workers": 3}, name="crew")
        self.workers = self.procs.spawn("workers", Worker)

    @endpoint
    def crew(self) -> Worker:
        return self.workers  # a reference; the foreman stays the owner

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.reports.send(f"{failure.mesh_name}: rank {failure.ranks} ended by {failure.exit}")
        if not self.spares:
            return False
        self.spares -= 1
        for rank in failure.ranks:
            self.procs.respawn(rank)
        return True


def main() -> None:
    reports, reported = danaus.actor.Channel[str].open()
    foreman = this_host().spawn_procs(name="office").spawn("foreman", Foreman, 1, reports)
    workers = foreman.crew.call_one().get()
    for _ in range(3):
        workers.work.call().get()
    print("tasks done by rank:", list(workers.work.call().get().values()))

    # The kernel kills rank 1. Calls that include it fail at once, with who died and of what.
    os.kill(workers.slice(workers=1).pid.call_one().get(), signal.SIGKILL)
    print("the foreman says", reported.recv().get())
    workers = foreman.crew.call_one().get()  # the owner's reference knows the new process
    print("tasks done by rank:", list(workers.work.call().get().values()))

    # Once more, and now there is no spare one: the foreman fails, and with it all that it owns.
    unhandled = threading.Event()

    def hook(failure: MeshFailure) -> None:
        print("unhandled:", failure.mesh_name, failure.ranks)
        unhandled.set()

    danaus.actor.unhandled_fault_hook = hook
    os.kill(workers.slice(workers=2).pid.call_one().get(), signal.SIGKILL)
    print("the foreman says", reported.recv().get())
    unhandled.wait(10)
    try:
        foreman.crew.call_one().get()
    except SupervisionError as error:
        failure = error.failure
        if failure is not None:  # it is, unless somebody stopped the foreman
            print("the foreman is gone, because of", failure.first.mesh_name, failure.first.ranks)


if __name__ == "__main__":
    main()
