"""Meshes of processes: actors are spawned on them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from danaus._mesh.actor import Actor
from danaus._mesh.actor_mesh import ActorMesh, endpoint_collisions
from danaus._mesh.actor_ref import ActorRef
from danaus._mesh.mocks import get_actor_class
from danaus._mesh.proc_table import ProcTable
from danaus._mesh.respawner import start_actor
from danaus._runtime.endpoints import Signature
from danaus._runtime.future import Future, new_future
from danaus._runtime.identity import fresh_name
from danaus._runtime.owned import OwnedMesh
from danaus._runtime.process import context, runtime
from danaus._shape import MeshTrait, NDSlice, Shape
from danaus._wire.codec import dumps
from danaus.errors import SerializationError

if TYPE_CHECKING:
    from danaus._mesh.host_mesh import HostMesh
    from danaus._mesh.respawner import Respawner
    from danaus._runtime.context import Context
    from danaus._runtime.outbox import Target
    from danaus._runtime.router import Runtime

__all__ = [
    "ProcMesh",
    "announce",
    "own_mesh",
    "register_proc_mesh_spawn_callback",
    "unregister_proc_mesh_spawn_callback",
]

TActor = TypeVar("TActor", bound=Actor)

_NAME_LIMIT = 255

_INTERRUPTED = 0.5
"""Seconds that procs have to end in good order where the block that used them was interrupted."""

_spawn_callbacks: list[Callable[[ProcMesh], None]] = []


def register_proc_mesh_spawn_callback(callback: Callable[[ProcMesh], None]) -> None:
    """Call ``callback`` with every proc mesh that this process spawns."""
    _spawn_callbacks.append(callback)


def unregister_proc_mesh_spawn_callback(callback: Callable[[ProcMesh], None]) -> None:
    """Call it no more."""
    _spawn_callbacks.remove(callback)


def announce(mesh: ProcMesh) -> None:
    """Tell those who registered of a new proc mesh."""
    for callback in _spawn_callbacks:
        callback(mesh)


class ProcMesh(MeshTrait):
    """Processes with ranks. They belong to the actor (or client) that spawned them.

    Example:
        >>> procs = this_host().spawn_procs(per_host={"gpus": 8})
        >>> trainers = procs.spawn("trainer", Trainer, lr=1e-3)
    """

    def __init__(  # noqa: PLR0913  # its fields
        self,
        uid: str,
        name: str,
        table: ProcTable,
        shape: Shape,
        *,
        host_mesh: HostMesh | None = None,
        owned: bool = False,
        respawner: Respawner | None = None,
    ) -> None:
        self._uid = uid
        self._name_text = name
        self._table = table
        self._shape_now = shape
        self._host_mesh = host_mesh
        self._owned = owned
        self._respawner = respawner

    @property
    def uid(self) -> str:
        """Id of the mesh as it was spawned."""
        return self._uid

    # shape

    @property
    def _ndslice(self) -> NDSlice:
        return self._shape_now.ndslice

    @property
    def _labels(self) -> list[str]:
        return list(self._shape_now.labels)

    def _as_shape(self) -> Shape:
        return self._shape_now

    def _new_with_shape(self, shape: Shape) -> ProcMesh:
        return ProcMesh(self._uid, self._name_text, self._table, shape, host_mesh=self._host_mesh)

    def __bool__(self) -> bool:
        return True

    def _base_ranks(self) -> list[int]:
        return self._ndslice.ranks()

    def _targets(self) -> list[Target]:
        procs = self._table.procs
        return [(*procs[base], rank) for rank, base in enumerate(self._base_ranks())]

    # actors

    def spawn(self, name: str, Class: type[TActor], *args: Any, **kwargs: Any) -> TActor:  # noqa: N803
        """Start one actor of ``Class`` in each process; returns at once.

        What follows (calls, further spawns) may be sent without waiting. A constructor that raises
        is a failure of its rank, seen by the next call and by the spawning actor's
        ``__supervise__``.

        Args:
            name: Name of the mesh of actors, for people; need not be unique.
            Class: A subclass of `Actor`.
            args: Arguments of its constructor; pickled now.
            kwargs: Likewise.

        Raises:
            ValueError: ``Class`` is no actor class, or the name or an endpoint's name cannot be.
            TypeError: The constructor does not take these arguments, or the class is abstract.
            SerializationError: The class or an argument cannot be pickled.
        """
        Class = getattr(Class, "__origin__", Class)  # noqa: N806  # of Trainer[int], Trainer
        _check_class(Class)
        Class = get_actor_class(Class)  # noqa: N806  # a test may have put another in its place
        _check_class(Class)
        _check_name(name)
        _check_arguments(Class, args, kwargs)
        return self.spawn_as(fresh_name(name[:40]), context(), (name, Class), args, kwargs)

    def spawn_as(
        self,
        uid: str,
        caller: Context,
        what: tuple[str, type[TActor]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> TActor:
        """`spawn` under a given id and for a given owner; for Danaus itself."""
        name, cls = what
        me = caller.actor_instance.runtime
        stopped = me.faults.stopped.get(self._uid)
        shape = self._shape_now
        base = self._base_ranks()
        procs = [self._table.procs[b] for b in base]
        table = ProcTable(self._uid, procs)
        own_shape = Shape(shape.labels, NDSlice.new_row_major(shape.ndslice.sizes))
        actors = ActorRef(uid, name, cls, table, own_shape)
        mesh: ActorMesh[TActor] = ActorMesh(actors, proc_mesh=self, owned=True)
        if stopped is not None:
            me.faults.stopped[uid] = f"`ProcMesh` has already been stopped ({stopped})"
            return mesh  # type: ignore[return-value]
        creator = caller.actor_instance.as_creator()
        try:
            parts = dumps((cls, args, kwargs, self, creator))
        except SerializationError as error:
            raise SerializationError(
                f"cannot spawn actor {name!r} of {cls.__name__}: {error}"
            ) from error
        owned = OwnedMesh(
            uid,
            name,
            caller.actor_instance.uid,
            procs,
            class_path=f"{cls.__module__}.{cls.__qualname__}",
            on=self._uid,
            path=repr(caller.actor_instance),
            dims=(list(shape.labels), list(shape.ndslice.sizes)),
        )
        owned.table = table
        owned.birth = (
            parts,
            {
                "name": name,
                "labels": list(shape.labels),
                "sizes": list(shape.ndslice.sizes),
                "owner": me.id,
                "owner_actor": caller.actor_instance.uid,
                "owner_address": me.address_of(me.id, None),
                "path": repr(caller.actor_instance),
            },
        )
        me.faults.own(owned, base)
        for rank, (proc, address) in enumerate(procs):
            start_actor(me, owned, rank, proc, address)
        return mesh  # type: ignore[return-value]

    # life

    @property
    def initialized(self) -> Future[bool]:
        """Settled with True when all processes run and their bootstraps have returned."""
        from danaus._mesh.readiness import procs_ready

        me = runtime()
        if self._uid in me.faults.stopped:
            future = new_future(None)
            future.set_error(RuntimeError("`ProcMesh` has already been stopped"))
            return future
        return procs_ready(self._uid, self._name_text, self._targets(), self._base_ranks())

    @property
    def host_mesh(self) -> HostMesh:
        """The hosts that it was spawned on."""
        if self._host_mesh is None:
            raise NotImplementedError(f"the hosts of proc mesh {self._name_text!r} are not known")
        return self._host_mesh

    def stop(self, reason: str = "stopped by client") -> Future[None]:
        """End the processes in good order; their actors' ``__cleanup__`` runs first.

        Raises:
            ValueError: This is a slice, or a reference that was received.
        """
        return self._stop(reason, None)

    def _stop(self, reason: str, patience: float | None) -> Future[None]:
        me = runtime()
        owned = me.faults.owned.get(self._uid)
        if owned is None and self._uid in me.faults.stopped:
            future = new_future(None)
            future.set_value(None)
            return future
        if owned is None or not self._owned:
            raise ValueError("ProcMesh is not owned; must be stopped by an owner")
        return me.faults.stop_mesh(owned, reason, patience)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        # Ctrl-C and cancellation come here as exceptions that are no failures. Whoever sends them
        # wants the end now, and not when an endpoint has returned.
        interrupted = kind is not None and not issubclass(kind, Exception)
        await self._stop("stopped by client", _INTERRUPTED if interrupted else None)

    def respawn(self, rank: int | None = None) -> Future[None]:
        """Start a failed rank again in place, and the actors that lived on it.

        The actors are made anew by their constructors, with the arguments of their spawn; the
        other ranks keep their state, the mesh its shape. Where only an actor of the rank has
        failed, its process is ended first, and all its actors start again. References that
        others hold keep meaning the old process: send them anew.

        Where the rank's host is gone, a spare host takes its place in the mesh of hosts, for this
        and all other ranks (see ``spares`` of `attach_to_workers`).

        Args:
            rank: Rank in the mesh as it was spawned, row-major. None for all that have failed,
                such as those of a dead host.

        Returns:
            A future that is settled when the new process runs. It raises `SupervisionError` where
            its host is gone, and no spare host is left.

        Raises:
            ValueError: The rank does not exist, has not failed, or this is not the owner's mesh.
            RuntimeError: The mesh was stopped.
        """
        me = runtime()
        owned = me.faults.owned.get(self._uid)
        if self._uid in me.faults.stopped:
            raise RuntimeError("`ProcMesh` has already been stopped")
        if owned is None or self._respawner is None:
            raise ValueError("ProcMesh is not owned; only its owner can respawn a rank")
        if rank is None:
            return self._respawner.respawn_all(owned)
        if not 0 <= rank < len(owned.targets):
            raise ValueError(f"no rank {rank}; the mesh has ranks 0..{len(owned.targets) - 1}")
        return self._respawner.respawn(owned, rank)

    def logging_option(
        self,
        stream_to_client: bool = False,  # noqa: FBT001, FBT002  # compatible signature
        aggregate_window_sec: float | None = None,
        level: int = 20,
    ) -> Future[None]:
        """Set how the output of these processes is shown, from now on.

        Without it, lines are shown by the client as they come, and what all ranks print within a
        moment once, with their number (see the config keys ``enable_log_forwarding`` and
        ``log_aggregate_window``). Whatever is shown, the whole output is in a file a process.

        Args:
            stream_to_client: Whether the client shows the output. If not, it is not even sent.
            aggregate_window_sec: Seconds for which lines are collected; those that resemble each
                other, of all ranks, are then shown as one with a count. None: each line by itself.
            level: Level of the root logger of Python's logging in the processes, 0..255.

        Returns:
            A future that is settled when it is in force: what a call prints that is sent
            afterwards is shown so. What was collected before is shown by then. Waiting for it is
            optional.

        Raises:
            TypeError: A level or a window is no number.
            ValueError: A level or a window is out of range.
        """
        from danaus._mesh.log_options import LogOptions, set_log_options

        options = LogOptions(stream_to_client, aggregate_window_sec, level)
        targets = self._targets()
        whole = len(targets) == len(self._table.procs)
        return set_log_options(self._uid, targets, whole=whole, options=options)

    def __reduce__(self) -> Any:
        return (
            _rebuild,
            (self._uid, self._name_text, self._table, self._shape_now, self._host_mesh),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProcMesh):
            return NotImplemented
        return self._uid == other._uid and self._shape_now == other._shape_now

    def __hash__(self) -> int:
        return hash(self._uid)

    def __repr__(self) -> str:
        return f"<ProcMesh {self._name_text} {self.extent}>"


def _rebuild(
    uid: str, name: str, table: ProcTable, shape: Shape, host_mesh: HostMesh | None
) -> ProcMesh:
    return ProcMesh(uid, name, table, shape, host_mesh=host_mesh)


def own_mesh(me: Runtime) -> ProcMesh:
    """The calling process as a mesh of one."""
    # A client may have no address yet; the table finds it when it is sent somewhere.
    table = ProcTable(f"own-{me.id}", [(me.id, me.address)])
    shape = Shape([], NDSlice(offset=0, sizes=[], strides=[]))
    return ProcMesh(f"own-{me.id}", me.id, table, shape)


def _check_class(cls: Any) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Actor)):
        raise ValueError(  # noqa: TRY004  # compatible
            f"{cls!r} is not an Actor class; derive it from danaus.actor.Actor to spawn it"
        )
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(vars(cls)["__abstractmethods__"]))
        raise TypeError(f"{cls.__name__} is abstract and cannot be spawned: define {missing}")
    hidden = endpoint_collisions(cls)
    if hidden:
        raise ValueError(
            f"ActorMesh has an attribute that collides with an endpoint name: {hidden[0]!r} of "
            f"{cls.__name__}; rename the endpoint"
        )


def _check_arguments(cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise the TypeError that the constructor would raise there."""
    if cls.__init__ is not object.__init__:
        Signature(cls.__init__, 1, "constructor").check(args, kwargs)
    elif (args or kwargs) and cls.__new__ is object.__new__:
        raise TypeError(f"{cls.__name__} has no __init__ and takes no arguments")


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of an actor mesh is a str, got {name!r}")
    if not name or len(name) > _NAME_LIMIT or not name.isprintable():
        raise ValueError(
            f"an actor mesh needs a name of 1 to {_NAME_LIMIT} printable characters, got "
            f"{name[:40]!r} ({len(name)} characters)"
        )
