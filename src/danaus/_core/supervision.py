"""Who is told of a failure, and what falls with it?

Everything has one owner: a mesh belongs to the actor that made it, and an actor to the mesh that
it is a rank of. A failure of a rank goes to the owner of its mesh. If the owner does not handle
it, the owner fails, and that is a failure of a rank of *its* mesh, and so on, up to the root (the
client's own actor), where the unhandled-fault hook is called.

One `Supervision` runs in each process and knows the actors that live there and the meshes that
these actors made. A failure that leaves the process leaves it as a dead actor: the driver ends the
actor of a `FailOwner`, and reports its death to the process of its mesh's owner as it does for any
death. So the tree spans processes without any machine knowing all of it.

    rank dies -> `Failed` -> `AskOwner` -> `Handled(True)`   the mesh has a failed rank, no more
                                        -> `Handled(False)`  `FailOwner`, `StopOwned`, upwards
                          -> `EscalateToRoot`                the owner is the root

Rules: a failed rank is reported once until it is respawned; one cause (a dead proc with three
meshes on it) reaches the root once; a rank of a stopped mesh or of a dead owner is no news, and
neither is a late report of what a respawned rank died of before.
What a holder of a reference needs, which ranks failed and of what, is `MeshHealth`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, assert_never

from danaus._core.health import MeshHealth
from danaus._core.history import History
from danaus._core.recent import Recent

__all__ = [
    "ActorStarted",
    "AskOwner",
    "EscalateToRoot",
    "FailCallers",
    "FailOwner",
    "Failed",
    "Failure",
    "Handled",
    "MeshCreated",
    "MeshHealth",
    "OwnerGone",
    "Respawned",
    "StopOwned",
    "Stopped",
    "Supervision",
    "SupervisionCommand",
    "SupervisionEvent",
    "SupervisionStatistics",
]

REMEMBERED = 1024
"""Causes that have reached the root, and actors that are gone, of which a process keeps the names:
what comes late of an older one is long over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One rank of a mesh failed."""

    failure_id: int
    """Number of the failure in this process; 0 for the news that a mesh was stopped."""
    mesh: str
    rank: int | None
    """The rank in the mesh as it was spawned; None if and only if it concerns all of them."""
    report: object
    """What the runtime knows of it: opaque here."""
    cause: str
    """Id of the event that began it, the same for everything that it brought down."""
    origin: Failure | None = None
    """The failure that the owner (this rank) did not handle; None if this is where it began."""
    raised: str = ""
    """Text of the exception that the owner's ``__supervise__`` raised; empty if it raised none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStarted:
    """An actor lives in this process from now on.

    One that owns meshes but was never announced fails and goes like any other; only that what it
    does not handle cannot go up within this process, and that it is not stopped with its owner.
    """

    actor: str
    mesh: str = ""
    """The mesh that it is a rank of; empty for the root."""
    rank: int = 0
    owner: str = ""
    """The actor that owns that mesh, in any process; empty for the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshCreated:
    """An actor of this process made a mesh of actors or of procs."""

    mesh: str
    owner: str
    on: str = ""
    """The proc mesh on which an actor mesh lives, if an actor of this process made that too."""
    on_ranks: tuple[int, ...] | None = None
    """For each rank its rank in ``on``; None if they are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A rank of a mesh is dead."""

    node: str
    """The mesh, of actors or procs."""
    rank: int
    report: object
    cause: str
    """Id of what began it, such as the dead proc: equal for all that this brought down."""
    origin: Failure | None = None
    """The failure in another process that this rank did not handle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """The owner's ``__supervise__`` answered an `AskOwner`."""

    failure_id: int
    handled: bool
    raised: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A mesh is being stopped on purpose: from now on, its ranks' ends are no failures."""

    mesh: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Respawned:
    """A failed rank runs again, and so may fail again."""

    mesh: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerGone:
    """An actor (of this process or another) is gone: what it owns here goes with it."""

    owner: str
    reason: str


SupervisionEvent: TypeAlias = (
    ActorStarted | MeshCreated | Failed | Handled | Stopped | Respawned | OwnerGone
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOwner:
    """Call the owner's ``__supervise__`` between two messages; answer with `Handled`."""

    owner: str
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class FailOwner:
    """End this actor with the failure that it did not handle."""

    owner: str
    failure: Failure
    reported: bool
    """Whether the machine has told the owner's own owner, who lives here. If not, the driver
    reports a `Failed` to that owner's process, as for any death, with this failure as `origin`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOwned:
    """Stop what an actor owned: meshes in this order, and actors of this process."""

    owner: str
    meshes: tuple[str, ...]
    """Latest first: what was built on others goes before them."""
    actors: tuple[str, ...]
    """Actors of this process whose mesh it owned; what they owned themselves is stopped first."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailCallers:
    """Fail pending calls on these ranks (None: on all), here and at other holders of the mesh."""

    mesh: str
    rank: int | None
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalateToRoot:
    """Nobody handled it: call the unhandled-fault hook, once."""

    failure: Failure


SupervisionCommand: TypeAlias = AskOwner | FailOwner | StopOwned | FailCallers | EscalateToRoot


class SupervisionStatistics(NamedTuple):
    """What one machine knows now. All are counts."""

    actors: int
    """Actors of this process."""
    meshes: int
    """Meshes that they own and that are not stopped."""
    failed_ranks: int
    """Failed ranks of these meshes."""
    asked: int
    """Failures that an owner is being asked about."""


class _Mesh:
    """A mesh that an actor of this process owns."""

    __slots__ = ("buried", "health", "on", "on_ranks", "owner")

    def __init__(self, created: MeshCreated) -> None:
        self.owner = created.owner
        self.on = created.on
        self.on_ranks = created.on_ranks
        self.health: MeshHealth[Failure] = MeshHealth()
        self.buried: dict[int, str] = {}  # respawned rank -> what it died of before

    def ranks_on(self, rank: int) -> Iterable[int]:
        """Return the ranks that live on ``rank`` of the proc mesh below."""
        if self.on_ranks is None:
            return (rank,)
        return (own for own, below in enumerate(self.on_ranks) if below == rank)


class Supervision:
    """The part of the owner tree that lives in one process.

    Args:
        process: Name of the process, for error texts.
        root: Id of the client's own actor; empty in every process but the client.
    """

    def __init__(self, process: str, root: str = "") -> None:
        self._root = root
        self._actors: dict[str, ActorStarted] = {}
        self._meshes: dict[str, _Mesh] = {}  # in the order of their creation
        self._asked: dict[int, tuple[str, Failure]] = {}  # id -> the owner asked, and about what
        self._escalated: Recent[str, None] = Recent(REMEMBERED)  # causes that reached the root
        self._gone: Recent[str, None] = Recent(REMEMBERED)  # actors
        self._last_failure = 0
        self._history = History(f"supervision of {process!r}")
        if root:
            self._actors[root] = ActorStarted(actor=root)

    def handle(self, event: SupervisionEvent, now: float) -> list[SupervisionCommand]:
        """Take one event at ``now`` (seconds); return what the driver must do, in order."""
        out: list[SupervisionCommand] = []
        match event:
            case ActorStarted():
                self._history.record(now, "ActorStarted", event.actor, event.mesh, event.rank)
                self._actors[event.actor] = event
            case MeshCreated():
                self._history.record(now, "MeshCreated", event.mesh, event.owner, event.on)
                self._mesh_created(event, out)
            case Failed():
                self._history.record(now, "Failed", event.node, event.rank, event.cause)
                self._failed(event, out)
            case Handled():
                self._history.record(now, "Handled", event.failure_id, event.handled)
                self._handled(event, out)
            case Stopped():
                self._history.record(now, "Stopped", event.mesh, event.reason)
                self._stopped(event.mesh, event.reason, out)
            case Respawned():
                self._history.record(now, "Respawned", event.mesh, event.rank)
                self._respawned(event.mesh, event.rank)
            case OwnerGone():
                self._history.record(now, "OwnerGone", event.owner, event.reason)
                self._owner_gone(event.owner, event.reason, out)
            case _:
                assert_never(event)
        return out

    def health(self, mesh: str) -> MeshHealth[Failure] | None:
        """Return the health of a mesh that an actor of this process owns; None for others."""
        known = self._meshes.get(mesh)
        return None if known is None else known.health

    def _mesh_created(self, event: MeshCreated, out: list[SupervisionCommand]) -> None:
        self._meshes[event.mesh] = _Mesh(event)
        if event.owner in self._gone:
            # The owner died while it was spawning: nobody else would ever stop this mesh.
            self._owner_gone(event.owner, "its owner is gone", out)
        else:
            self._actors.setdefault(event.owner, ActorStarted(actor=event.owner))

    def _failed(self, event: Failed, out: list[SupervisionCommand]) -> bool:
        """Take a failure; return whether it was news."""
        mesh = self._meshes.get(event.node)
        if mesh is None or mesh.buried.get(event.rank) == event.cause:
            return False
        failure = self._new_failure(event)
        if not mesh.health.fail(event.rank, failure):
            return False
        out.append(FailCallers(mesh=event.node, rank=event.rank, failure=failure))
        told = self._failed_above(event, out)
        # Who hears of the actors that died with a proc need not hear of the proc too.
        if mesh.owner not in told:
            self._tell(mesh.owner, failure, out)
        return True

    def _failed_above(self, event: Failed, out: list[SupervisionCommand]) -> set[str]:
        """Fail the actors that lived on a dead proc; return the owners who hear of them."""
        told: set[str] = set()
        for name, above in self._meshes_on(event.node):
            for rank in above.ranks_on(event.rank):
                news = Failed(node=name, rank=rank, report=event.report, cause=event.cause)
                if self._failed(news, out):
                    told.add(above.owner)
        return told

    def _meshes_on(self, mesh: str) -> list[tuple[str, _Mesh]]:
        return [item for item in self._meshes.items() if item[1].on == mesh]

    def _new_failure(self, event: Failed) -> Failure:
        self._last_failure += 1
        return Failure(
            failure_id=self._last_failure,
            mesh=event.node,
            rank=event.rank,
            report=event.report,
            cause=event.cause,
            origin=event.origin,
        )

    def _tell(self, owner: str, failure: Failure, out: list[SupervisionCommand]) -> None:
        if owner == self._root:
            self._escalate(failure, out)
        else:
            self._asked[failure.failure_id] = (owner, failure)
            out.append(AskOwner(owner=owner, failure=failure))

    def _escalate(self, failure: Failure, out: list[SupervisionCommand]) -> None:
        if failure.cause in self._escalated:
            return
        self._escalated[failure.cause] = None
        out.append(EscalateToRoot(failure=failure))

    def _handled(self, event: Handled, out: list[SupervisionCommand]) -> None:
        owner, failure = self._asked.pop(event.failure_id, ("", None))
        actor = self._actors.get(owner)
        if event.handled or failure is None or actor is None:
            return
        failure = replace(failure, raised=event.raised)
        here = actor.mesh in self._meshes
        out.append(FailOwner(owner=owner, failure=failure, reported=here))
        self._owner_gone(owner, "it failed", out)
        if here:
            upward = Failed(
                node=actor.mesh,
                rank=actor.rank,
                report=failure.report,
                cause=failure.cause,
                origin=failure,
            )
            self._failed(upward, out)

    def _owner_gone(self, owner: str, reason: str, out: list[SupervisionCommand]) -> None:
        """Stop what an actor owned here, deepest first, and forget the actor."""
        self._actors.pop(owner, None)
        self._gone[owner] = None
        for failure_id in [key for key, asked in self._asked.items() if asked[0] == owner]:
            del self._asked[failure_id]
        actors = [name for name, actor in self._actors.items() if actor.owner == owner]
        for actor in actors:
            self._owner_gone(actor, reason, out)
        meshes = [name for name, mesh in self._meshes.items() if mesh.owner == owner]
        meshes.reverse()
        for mesh in meshes:
            self._stopped(mesh, reason, out)
        if meshes or actors:
            out.append(
                StopOwned(owner=owner, meshes=tuple(meshes), actors=tuple(actors), reason=reason)
            )

    def _stopped(self, mesh: str, reason: str, out: list[SupervisionCommand]) -> None:
        known = self._meshes.pop(mesh, None)
        if known is None:
            return
        failure = Failure(failure_id=0, mesh=mesh, rank=None, report=reason, cause="stop")
        for above, _ in self._meshes_on(mesh):
            self._stopped(above, reason, out)
        known.health.stop(failure)
        out.append(FailCallers(mesh=mesh, rank=None, failure=failure))

    def _respawned(self, mesh: str, rank: int) -> None:
        known = self._meshes.get(mesh)
        if known is not None:
            failure = known.health.failure_of((rank,))
            if failure is not None:
                known.buried[rank] = failure.cause
            known.health.respawn(rank)

    def statistics(self) -> SupervisionStatistics:
        """Return the counts. Cost: one pass over the meshes."""
        return SupervisionStatistics(
            actors=len(self._actors),
            meshes=len(self._meshes),
            failed_ranks=sum(len(mesh.health.failed_ranks()) for mesh in self._meshes.values()),
            asked=len(self._asked),
        )

    def check(self) -> None:
        """Raise `InvariantBroken` if a rule of the machine does not hold."""
        require = self._history.require
        for name, mesh in self._meshes.items():
            require(mesh.owner in self._actors, f"mesh {name} has an owner: {mesh.owner}")
            require(mesh.health.stopped is None, f"mesh {name} is forgotten once stopped")
            for rank, failure in mesh.health.failed_ranks().items():
                require((failure.mesh, failure.rank) == (name, rank), f"{name}[{rank}]: {failure}")
        for owner, failure in self._asked.values():
            require(owner in self._actors, f"only the living are asked: {owner}, {failure.mesh}")
            require(owner != self._root, f"the root is not asked: {failure.mesh}")

    def __repr__(self) -> str:
        return f"<Supervision {len(self._actors)} actors, {len(self._meshes)} meshes>"
