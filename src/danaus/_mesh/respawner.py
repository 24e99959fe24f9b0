"""Respawns: a failed rank of a proc mesh starts again, on its host or on a spare one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._mesh.spares import Host, Spares, answers
from danaus._runtime.future import Future, new_future
from danaus._wire import kinds
from danaus.errors import MeshFailure, SupervisionError

if TYPE_CHECKING:
    from danaus._mesh.proc_table import ProcTable
    from danaus._mesh.spawner import Spawner
    from danaus._runtime.owned import OwnedMesh
    from danaus._runtime.router import Runtime

__all__ = ["Respawner", "start_actor"]

_PAUSE = 0.02
"""Seconds between two looks whether a host has come back."""

_STOPPED = "`ProcMesh` has already been stopped"


def start_actor(me: Runtime, owned: OwnedMesh, rank: int, proc: str, address: str) -> None:
    """Have a process make one actor of a mesh, from what the mesh was spawned with."""
    parts, fields = owned.birth
    me.outbox.send_to_actor(
        me.context_of(owned.owner_actor),
        kinds.SPAWN_ACTOR,
        (proc, address),
        owned.uid,
        ({**fields, "rank": rank},),
        parts,
    )


class Respawner:
    """Starts the failed ranks of one proc mesh again.

    Args:
        me: The process that owns the mesh.
        uid: Id of the mesh.
        name: Its name, for people.
        table: Its processes.
        spawner: What has spawned it.
        spares: The spare hosts of the hosts that it was spawned on.
    """

    def __init__(
        self,
        me: Runtime,
        uid: str,
        name: str,
        table: ProcTable,
        spawner: Spawner,
        spares: Spares,
    ) -> None:
        self._me = me
        self._uid = uid
        self._name = name
        self._table = table
        self._spawner = spawner
        self._spares = spares
        self._moved: dict[int, Host] = {}
        """Hosts that ranks were started again on, where it was not the first one."""
        self._running: dict[str, Future[None]] = {}
        self._lock = threading.Lock()

    # which ranks

    def respawn_all(self, owned: OwnedMesh) -> Future[None]:
        """Start all ranks again that have failed, and those whose host is gone."""
        ranks = range(len(owned.targets))
        # Twice: a host that is replaced takes others with it that are not known to be dead yet.
        found = [self._begin(owned, rank) for rank in (*ranks, *ranks)]
        return _all(self._me, list({id(one): one for one in found if one is not None}.values()))

    def respawn(self, owned: OwnedMesh, rank: int) -> Future[None]:
        """Start a rank again.

        Raises:
            ValueError: It has not failed.
        """
        begun = self._begin(owned, rank)
        if begun is None:
            raise ValueError(f"rank {rank} has not failed; what works is not started again")
        return begun

    def _begin(self, owned: OwnedMesh, rank: int) -> Future[None] | None:
        """Start a rank again if it has failed."""
        me = self._me
        done: Future[None] = new_future(me.reactor)
        with self._lock:
            proc, address = owned.targets[rank]
            known = self._running.get(proc)
            if known is not None or not self._has_failed(owned, rank):
                return known
            wishes = self._spawner.overrides(rank)  # what raises, raises here
            self._running[proc] = done

        def start(host: Host) -> None:
            me.faults.end_proc(
                proc, address, lambda: self._start_again(owned, rank, (host, wishes), done)
            )

        host = self._place(rank, proc)
        if host is not None:
            start(host)
        else:
            threading.Thread(
                target=self._search,
                args=(owned, rank, start, done),
                name="danaus-respawn",
                daemon=True,
            ).start()
        return done

    def _has_failed(self, owned: OwnedMesh, rank: int) -> bool:
        proc, _ = owned.targets[rank]
        host = self._host_of(rank)
        return (
            proc in self._me.routes.dead
            or self._me.faults.has_failed_on(self._uid, proc)
            or self._spares.now(host) != host
            or self._is_given_up(host)
        )

    # where

    def _place(self, rank: int, proc: str) -> Host | None:
        """Where a rank can be started at once; None where that has yet to be found out."""
        now = self._spares.now(self._host_of(rank))
        cause = (self._me.routes.dead.get(proc) or {}).get("cause")
        gone = self._is_given_up(now) or (cause == now[1] and not answers(now[1]))
        if not gone:
            return now
        return self._spares.replace(now)

    def _host_of(self, rank: int) -> Host:
        """The host that the process of a rank was started on."""
        return self._moved.get(rank) or self._spawner.host_of(rank)

    def _is_given_up(self, host: Host) -> bool:
        link = self._me.routes.agents.get(host[1])
        return link is None or link.lost

    def _search(
        self, owned: OwnedMesh, rank: int, start: Callable[[Host], None], done: Future[None]
    ) -> None:
        """Wait until the host of a rank or a spare one answers; tell when none does."""
        routes = self._me.routes
        host = self._spares.now(self._host_of(rank))
        deadline = time.monotonic() + _config.get("host_dead_after")
        self._spares.greet()
        routes.agent(host[1])
        while True:
            if answers(host[1]):
                start(host)
                return
            spare = self._spares.replace(host)
            if spare is not None:
                start(spare)
                return
            waiting = [host, *self._spares.waiting]
            if time.monotonic() > deadline or all(map(self._is_given_up, waiting)):
                break
            time.sleep(_PAUSE)
        self._forget(owned.targets[rank][0])
        done.set_error(self._no_host(rank, host))

    def _no_host(self, rank: int, host: Host) -> SupervisionError:
        name, address = host
        routes = self._me.routes
        why = routes.refusals.get(address) or routes.lost_agents.get(address)
        text = f"it could not be started: host {name} is gone" + (f" ({why})" if why else "")
        text += ", and no spare host is left" if self._spares.any else ", and has no spare"
        failure = MeshFailure(self._name, [rank], text, host=name)
        return SupervisionError.for_call("respawn", failure)

    # the new process

    def _start_again(
        self,
        owned: OwnedMesh,
        rank: int,
        what: tuple[Host, dict[str, Any]],
        done: Future[None],
    ) -> None:
        """Put a new process, and new actors, in the place of a rank that has ended."""
        me = self._me
        host, wishes = what
        address = host[1]
        new = self._spawner.new_id(rank)
        old, _ = owned.targets[rank]
        # In the books first: the new process may be gone before this is through.
        again = me.faults.replace(owned, rank, (new, address))
        if owned.stopping:
            done.set_error(RuntimeError(_STOPPED))
            return
        self._moved[rank] = host
        self._table.replace(rank, new, address)
        for mesh, own_rank in again:
            mesh.table.replace(own_rank, new, address)
        self._spawner.start(host, new, wishes)
        for mesh, own_rank in again:
            start_actor(me, mesh, own_rank, new, address)
        if owned.stopping:  # since then: the order to end may have come before the process
            me.faults.end_proc(new, address, _nothing)
        self._forget(old)
        self._settle_when_ready(rank, done)

    def _forget(self, proc: str) -> None:
        with self._lock:
            self._running.pop(proc, None)

    def _settle_when_ready(self, rank: int, done: Future[None]) -> None:
        """Settle ``done`` when the process of that rank runs."""
        from danaus._mesh.readiness import procs_ready

        target = (*self._table.procs[rank], 0)
        ready = procs_ready(self._uid, self._name, [target], [rank])
        ready.add_callback(lambda: _settle(done, [ready.exception(0)]))


def _all(me: Runtime, futures: Sequence[Future[None]]) -> Future[None]:
    """Settled when all of them are; with the first error, if there is one."""
    done: Future[None] = new_future(me.reactor)
    lock = threading.Lock()
    left = len(futures)

    def one() -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            _settle(done, [future.exception(0) for future in futures])

    for future in futures:
        future.add_callback(one)
    if not futures:
        done.set_value(None)
    return done


def _settle(done: Future[None], errors: Sequence[BaseException | None]) -> None:
    found = [error for error in errors if error is not None]
    if found:
        done.set_error(found[0])
    else:
        done.set_value(None)


def _nothing() -> None:
    """Nobody waits for the end of what is stopped in any case."""
