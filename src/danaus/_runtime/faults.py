"""Deaths: who owns what in this process, what has died, and who is told.

The driver of the `Supervision` machine. It turns reports of agents (a process ended) and of other
processes (an actor failed) into events, and carries the commands out.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._core.recent import Recent
from danaus._core.supervision import (
    AskOwner,
    EscalateToRoot,
    Failed,
    FailOwner,
    Failure,
    Handled,
    MeshCreated,
    OwnerGone,
    Respawned,
    StopOwned,
    Stopped,
    Supervision,
    SupervisionCommand,
    SupervisionEvent,
)
from danaus._runtime.call import Stop, Supervise
from danaus._runtime.collect import ManyReplies
from danaus._runtime.future import Future, new_future
from danaus._runtime.outgoing import OutgoingCall
from danaus._wire import kinds
from danaus.errors import MeshFailure

if TYPE_CHECKING:
    from danaus._runtime.cell import ActorCell
    from danaus._runtime.owned import OwnedMesh, Place
    from danaus._runtime.router import Runtime

__all__ = ["Faults"]

_encode = msgspec.msgpack.Encoder().encode

ROOT = "root"
"""Id of the client's own actor."""


class Faults:
    """What this process knows of deaths, and whom it tells."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._machine = Supervision(runtime.id, ROOT)
        self._lock = threading.RLock()
        self._commands: deque[SupervisionCommand] = deque()
        self._awaited: dict[str, list[Callable[[], None]]] = {}
        self.owned: dict[str, OwnedMesh] = {}
        """Meshes that actors of this process made, by id."""
        self.failed: dict[str, dict[int, MeshFailure]] = {}
        """Failed ranks of meshes, whoever owns them, as far as they are known here."""
        self.stopped: Recent[str, str] = Recent(10_000)
        """Meshes that were stopped: why."""
        self.on_unhandled: Callable[[MeshFailure], None] | None = None
        """In a client: what to do with a failure that nobody handled."""
        self.on_agent_lost: Callable[[str, str], None] | None = None
        self.last_words: Callable[[str], str] = _silence
        """What an agent wrote to its standard error, by its address."""
        self.closing = False
        """True while this process ends its own hosts: what ends with them is no failure."""
        self.ending: set[str] = set()
        """Addresses of agents that this process is ending, or has: likewise."""
        self.when_shown: Callable[[set[str], Callable[[], None]], None] | None = None
        """In a client: calls back once the output of procs on these hosts is shown."""

    # who owns what

    def own(self, mesh: OwnedMesh, on_ranks: Sequence[int] | None = None) -> None:
        """An actor of this process has made a mesh."""
        with self._lock:
            self.owned[mesh.uid] = mesh
            below = mesh.on if mesh.on in self.owned else ""
            self._handle(
                MeshCreated(
                    mesh=mesh.uid,
                    owner=mesh.owner_actor,
                    on=below,
                    on_ranks=tuple(on_ranks) if on_ranks is not None else None,
                )
            )
            dead = self._runtime.routes.dead
            for rank, (proc, _) in enumerate(mesh.targets):
                if proc in dead:
                    self._rank_failed(mesh, rank, self._describe_rank(proc, mesh, rank), proc)
        self._carry_out()

    def actor_started(self, cell: ActorCell) -> None:
        """An actor lives here from now on; its owner's death is its end."""
        birth = cell.birth
        if birth.owner != self._runtime.id:
            self._runtime.routes.learn(birth.owner, birth.owner_address)

    def _handle(self, event: SupervisionEvent) -> None:
        """Feed the machine; whoever released the lock carries its commands out."""
        self._commands.extend(self._machine.handle(event, time.monotonic()))

    def _carry_out(self) -> None:
        """Carry out what the machine decided. Without the lock: sending may wait for room."""
        while True:
            try:
                command = self._commands.popleft()
            except IndexError:
                return
            match command:
                case AskOwner():
                    self._ask(command.owner, command.failure)
                case EscalateToRoot():
                    self._escalate(self._report(command.failure))
                case FailOwner():
                    self._fail_owner(command.owner, command.failure)
                case StopOwned():
                    for uid in command.meshes:
                        mesh = self.owned.get(uid)
                        if mesh is not None:
                            self.stop_mesh(mesh, f"its owner has ended: {command.reason}")
                case _:
                    pass  # callers learn from the process that they called, or from its agent

    def _ask(self, owner: str, failure: Failure) -> None:
        cell = self._runtime.cells.get(owner)
        report = self._report(failure)
        if cell is not None and isinstance(report, MeshFailure):
            cell.post_first(Supervise(report, failure.failure_id))
            return
        if isinstance(report, MeshFailure) and owner not in self._runtime.gone:
            sys.stderr.write(f"danaus: nobody supervises this: {report.report()}\n")
        self.answered(failure.failure_id, handled=True)

    def answered(self, number: int, *, handled: bool) -> None:
        """The owner's ``__supervise__`` has answered."""
        with self._lock:
            self._handle(Handled(failure_id=number, handled=handled))
        self._carry_out()

    def _escalate(self, report: object) -> None:
        if isinstance(report, MeshFailure) and self.on_unhandled is not None:
            self.on_unhandled(report)

    def _fail_owner(self, owner: str, failure: Failure) -> None:
        cell = self._runtime.cells.get(owner)
        report = self._report(failure)
        if cell is not None and isinstance(report, MeshFailure):
            cell.fail_unhandled(report, failure.cause)

    def _report(self, failure: Failure) -> object:
        """What is told of a failure: of an actor that died with its process, its own report."""
        known = self.failed.get(failure.mesh, {})
        return known.get(-1 if failure.rank is None else failure.rank, failure.report)

    # deaths

    def _describe(self, proc: str, mesh_name: str, rank: int, class_name: str = "") -> MeshFailure:
        """The failure of a rank whose process has ended."""
        report = self._runtime.routes.dead.get(proc) or {}
        text = report.get("text") or "its link ended, and its host does not answer"
        kind = "the process this actor was running on" if class_name else "the process"
        reason = f"{kind} failed: {text}"
        log = report.get("log")
        if log:
            reason += f" (its output is in {log})"
        return MeshFailure(
            mesh_name,
            [rank],
            reason,
            actor_class=class_name,
            host=report.get("host", ""),
            pid=report.get("pid", 0),
            exit=report.get("exit"),
            stderr=report.get("stderr", ""),
        )

    def _describe_rank(self, proc: str, mesh: OwnedMesh, rank: int) -> MeshFailure:
        failure = self._describe(proc, mesh.name, rank, mesh.class_name)
        failure.title = mesh.title(rank)
        return failure

    def proc_died(self, proc: str, report: dict[str, Any] | None) -> None:
        """A process has ended. Called once for each, on any thread."""
        runtime = self._runtime
        cause = (report or {}).get("cause", proc)
        expected = self.closing or cause in self.ending or bool(report and report.get("stopping"))
        with self._lock:
            meshes = [m for m in self.owned.values() if m.has(proc)]
            for mesh in meshes:
                mesh.gone(proc)
            if not expected:
                for mesh in sorted(meshes, key=lambda m: m.is_actors):
                    for rank in mesh.ranks_of(proc):
                        failure = self._describe_rank(proc, mesh, rank)
                        self._rank_failed(mesh, rank, failure, cause)
        runtime.bulk.forget(proc)
        runtime.forget_proc(proc)
        runtime.fail_targets(
            proc, lambda call, rank: self.for_call(proc, call, rank, expected=expected)
        )
        for cell in list(runtime.cells.values()):
            if cell.birth.owner == proc:
                reason = "its owner is gone, with the process that it lived in"
                cell.post_first(Stop(reason, runtime.id, -1, 0, None))
        with self._lock:
            calls = self._awaited.pop(proc, [])
        for call in calls:
            call()
        self._carry_out()

    def for_call(
        self,
        proc: str,
        call: OutgoingCall,
        rank: int,
        *,
        expected: bool,
    ) -> MeshFailure:
        """The failure that a call to a rank in a dead process gets."""
        with self._lock:
            mesh = self.owned.get(call.actor)
            known = list(self.failed.get(call.actor, {}).values())
        failure = self._describe(proc, call.mesh_name, rank, call.class_name)
        for other in known:
            if failure.pid and (other.pid, other.exit) == (failure.pid, failure.exit):
                return other
        if mesh is not None and mesh.ranks_of(proc):
            failure.title = mesh.title(mesh.ranks_of(proc)[0])
        if expected:
            why = (self._runtime.routes.dead.get(proc) or {}).get("reason")
            failure.reason = "actor mesh is stopped due to proc mesh shutdown"
            failure.reason += f": {why}" if why else ""
            failure.stderr = ""
        return failure

    def _rank_failed(self, mesh: OwnedMesh, rank: int, failure: MeshFailure, cause: str) -> None:
        if mesh.stopping:
            return
        self.failed.setdefault(mesh.uid, {}).setdefault(rank, failure)
        proc = mesh.targets[rank][0]
        # The machine tells of the actors on a proc by itself; each must have its own report.
        for above in self.owned.values():
            if above.on == mesh.uid:
                for own_rank in above.ranks_of(proc):
                    known = self.failed.setdefault(above.uid, {})
                    if own_rank not in known:
                        known[own_rank] = self._describe_rank(proc, above, own_rank)
        self._handle(Failed(node=mesh.uid, rank=rank, report=failure, cause=cause))

    def agent_died(self, address: str, why: str) -> None:
        """The link to an agent has ended: everything on its host is gone."""
        words = self.last_words(address)
        if self.on_agent_lost is not None:
            self.on_agent_lost(address, why)
        with self._lock:
            procs = {p for m in self.owned.values() for p, a in m.targets if a == address}
        text = f"it is gone with its host's agent ({why})" + (f": {words}" if words else "")
        routes = self._runtime.routes
        if address in routes.refusals:
            text = f"it could not be started: {why}"
        expected = self.closing or address in self.ending
        host = routes.host_names.get(address, "")
        report = {"text": text, "stopping": expected, "cause": address, "host": host}
        for proc in {*procs, *routes.known_at(address)}:
            routes.bury(proc, report)

    def actor_died(
        self, cell: ActorCell, failure: MeshFailure, cause: str, *, in_cleanup: bool = False
    ) -> None:
        """An actor of this process has failed: tell its owner, end what it owned."""
        birth = cell.birth
        runtime = self._runtime
        cause = cause or f"{runtime.id}/{cell.uid}"
        report = (
            birth.owner,
            birth.owner_actor,
            cell.uid,
            birth.rank,
            failure.to_dict(),
            cause,
            in_cleanup,
        )
        if birth.owner == runtime.id:
            self.on_supervise(report)
        else:
            to = (birth.owner, birth.owner_address)
            runtime.outbox.send_frame(kinds.SUPERVISE, to, _encode(report))
        self.actor_gone(cell.uid, failure.reason)

    def on_supervise(self, report: Sequence[Any]) -> None:
        """An actor that an actor of this process owns has failed."""
        _, owner, uid, rank, fields, cause, in_cleanup = report
        failure = MeshFailure.from_dict(fields)
        with self._lock:
            mesh = self.owned.get(uid)
            if mesh is not None:
                self._rank_failed(mesh, rank, failure, cause)
        if in_cleanup and (mesh is None or mesh.stopping):
            # The machine knows nothing of what is being stopped; yet its owner must hear of this.
            cell = self._runtime.cells.get(owner)
            if cell is not None:
                cell.post_first(Supervise(failure, 0))
            elif owner == ROOT:
                self._escalate(failure)
        self._carry_out()

    def actor_gone(self, uid: str, reason: str) -> None:
        """An actor of this process has ended: what it owns is asked to end; nobody waits."""
        for mesh in self._owned_by(uid):
            self.stop_mesh(mesh, f"its owner has ended: {reason.splitlines()[0][:200]}")
        with self._lock:
            self._handle(OwnerGone(owner=uid, reason=reason))
        self._carry_out()

    # calls

    def check(self, uid: str, ranks: Iterable[int]) -> MeshFailure | None:
        """Why a call on these ranks of a mesh must fail at once; None when it may go."""
        failed = self.failed.get(uid)
        if failed:
            for rank in ranks:
                if rank in failed:
                    return failed[rank]
        return None

    # stopping

    def _owned_by(self, actor: str) -> list[OwnedMesh]:
        with self._lock:
            meshes = [m for m in self.owned.values() if m.owner_actor == actor]
        return meshes[::-1]

    def stop_owned_by(self, actor: str, reason: str) -> None:
        """Stop what an actor owns, latest first, and wait until it has ended."""
        deadline = time.monotonic() + _config.get("stop_actor_timeout")
        futures = [self.stop_mesh(mesh, reason) for mesh in self._owned_by(actor)]
        for future in futures:
            try:
                future.get(max(0.0, deadline - time.monotonic()))
            except Exception:  # noqa: BLE001, S112  # it is being ended: its failures are no news
                continue

    def stop_mesh(
        self, mesh: OwnedMesh, reason: str, patience: float | None = None
    ) -> Future[None]:
        """Stop a mesh that an actor of this process owns. Twice is the same as once.

        Args:
            mesh: The mesh.
            reason: Why, for those who call it afterwards.
            patience: Seconds that procs have to end in good order; the config's by default.
        """
        with self._lock:
            if mesh.stop_future is not None:
                if patience is not None and not mesh.is_actors:
                    self._ask_to_end(mesh, reason, patience)
                return mesh.stop_future
            future = mesh.stop_future = new_future(self._runtime.reactor)
            mesh.stopping = True
            self.stopped[mesh.uid] = reason
            self._handle(Stopped(mesh=mesh.uid, reason=reason))
        if mesh.is_actors:
            self._stop_actors(mesh, reason, future)
        else:
            self._stop_procs(mesh, reason, future, patience)
        self._carry_out()
        return future

    def _stop_procs(
        self, mesh: OwnedMesh, reason: str, future: Future[None], patience: float | None
    ) -> None:
        with self._lock:
            for above in self.owned.values():
                if above.on == mesh.uid and not above.stopping:
                    above.stopping = True
                    above.stop_future = future
                    self.stopped[above.uid] = "actor mesh is stopped due to proc mesh shutdown"
                    self._handle(Stopped(mesh=above.uid, reason=reason))
        mesh.when_gone(lambda: self._ended(mesh, future), self._runtime.routes.dead)
        self._ask_to_end(mesh, reason, patience)

    def _ask_to_end(self, mesh: OwnedMesh, reason: str, patience: float | None) -> None:
        runtime = self._runtime
        seconds: float = _config.get("process_exit_timeout")
        if patience is not None:
            seconds = min(seconds, patience)
        groups: dict[str, list[str]] = {}
        for proc, address in mesh.targets:
            if proc not in runtime.routes.dead:
                groups.setdefault(address, []).append(proc)
        for address, procs in groups.items():
            link = runtime.routes.agent(address)
            if link is not None:
                link.send_small(kinds.STOP_PROCS, _encode([procs, reason, seconds]), b"")
            else:
                for proc in procs:
                    runtime.routes.bury_with_host(proc, address)

    def _ended(self, mesh: OwnedMesh, future: Future[None]) -> None:
        self.forget(mesh.uid)
        if self.when_shown is None:
            future.set_value(None)
        else:
            hosts = {address for _, address in mesh.targets}
            self.when_shown(hosts, lambda: future.set_value(None))

    def _stop_actors(self, mesh: OwnedMesh, reason: str, future: Future[None]) -> None:
        runtime = self._runtime
        alive = [target for target in mesh.targets if target[0] not in runtime.routes.dead]
        call = OutgoingCall(mesh.uid, mesh.name, mesh.class_name, "stop")
        collector = ManyReplies(
            runtime.reactor, [(proc, i) for i, (proc, _) in enumerate(alive)], call, _nothing
        )

        def settle() -> None:
            collector.future.exception(0)
            self._ended(mesh, future)

        collector.future.add_callback(settle)
        port = runtime.new_port(collector)
        context = runtime.context_of(mesh.owner_actor)
        for i, target in enumerate(alive):
            rest = (reason, port, i)
            runtime.outbox.send_to_actor(context, kinds.STOP_ACTOR, target, mesh.uid, rest, [b""])

    def forget(self, uid: str) -> None:
        """A mesh has ended and its books are closed."""
        with self._lock:
            gone = [m.uid for m in self.owned.values() if uid in (m.uid, m.on)]
            for name in gone:
                mesh = self.owned.pop(name, None)
                if mesh is not None:
                    self._runtime.outbox.forget_mesh(name)
                self.failed.pop(name, None)

    # respawning

    def has_failed_on(self, uid: str, proc: str) -> bool:
        """True when an actor has failed that lives in that process of a proc mesh."""
        with self._lock:
            return any(
                rank in self.failed.get(mesh.uid, {})
                for mesh in self.owned.values()
                if mesh.on == uid
                for rank in mesh.ranks_of(proc)
            )

    def end_proc(self, proc: str, address: str, call: Callable[[], None]) -> None:
        """End a process, if it has not ended, and call back when it has."""
        with self._lock:
            ended = proc in self._runtime.routes.dead
            if not ended:
                self._awaited.setdefault(proc, []).append(call)
        if ended:
            call()
            return
        link = self._runtime.routes.agent(address)
        if link is not None:
            link.send_small(kinds.STOP_PROCS, _encode([[proc], "it is started again", 0.0]), b"")
        else:
            self._runtime.routes.bury_with_host(proc, address)

    def replace(self, mesh: OwnedMesh, rank: int, new: Place) -> list[tuple[OwnedMesh, int]]:
        """A rank of a proc mesh is another process from now on, maybe on another host.

        Returns:
            The meshes with actors there, each with its own rank: they are to be made again.
        """
        again: list[tuple[OwnedMesh, int]] = []
        with self._lock:
            old = mesh.targets[rank][0]
            for above in self.owned.values():
                if above.on == mesh.uid and not above.stopping:
                    again.extend((above, own) for own in list(above.ranks_of(old)))
            for one, own in [(mesh, rank), *again]:
                one.replace(own, *new)
                self.failed.get(one.uid, {}).pop(own, None)
                self._handle(Respawned(mesh=one.uid, rank=own))
        self._carry_out()
        return again


def _nothing(_values: list[object]) -> None:
    """What stopped actors return."""


def _silence(_address: str) -> str:
    return ""
