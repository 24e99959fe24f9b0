"""Who is running: the current actor, and the message that it handles."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from danaus._shape import Extent, Point

if TYPE_CHECKING:
    from danaus._runtime.call import Call
    from danaus._runtime.router import Runtime

__all__ = ["Context", "CreatorInstance", "Instance", "actor_title", "current", "extent_from"]

current: ContextVar[Context | None] = ContextVar("danaus_context", default=None)
"""The context of the running thread or task; None outside actors."""

_SINGLE = Extent([], [])


def actor_title(
    path: str, class_path: str, name: str, rank: int, dims: tuple[Sequence[str], Sequence[int]]
) -> str:
    """An actor's place in the tree of owners, for people.

    Args:
        path: The owner's.
        class_path: Module and qualified name of its class.
        name: Name of its mesh.
        rank: Its rank there.
        dims: Labels and sizes of the mesh.
    """
    labels, sizes = dims
    point = Point(rank, Extent(list(labels), list(sizes)))
    place = ", ".join(f"'{k}': {point[k]}/{n}" for k, n in zip(labels, sizes, strict=True))
    return f"{path}.<{class_path} {name}{{{place}}}>"


@dataclass(frozen=True, slots=True)
class CreatorInstance:
    """Who made an actor."""

    rank: Point
    proc_mesh: Any
    proc: Any
    name: str
    class_name: str
    creator: CreatorInstance | None = None


class Instance:
    """One actor, as its own code sees it."""

    def __init__(  # noqa: PLR0913  # its fields
        self,
        runtime: Runtime,
        uid: str,
        *,
        name: str,
        class_name: str,
        rank: Point,
        proc_mesh: Any = None,
        creator: CreatorInstance | None = None,
        path: str = "<root>",
    ) -> None:
        self.runtime = runtime
        """The runtime of its process; for Danaus itself."""
        self.uid = uid
        self.name = name
        self.class_name = class_name
        self.rank = rank
        """Where it stands in the mesh that it was spawned in."""
        self.creator = creator
        self.path = path
        self._proc_mesh = proc_mesh
        self._system = False

    @property
    def actor_id(self) -> str:
        """Its address: proc and actor."""
        return f"{self.runtime.id}.{self.uid}"

    @property
    def proc_id(self) -> str:
        """Id of the process that it lives in."""
        return self.runtime.id

    @property
    def proc_mesh(self) -> Any:
        """The proc mesh that it was spawned on."""
        if self._proc_mesh is None:
            self._proc_mesh = self.runtime.own_proc_mesh()
        return self._proc_mesh

    @property
    def proc(self) -> Any:
        """The process that it lives in, as a mesh of one."""
        mesh = self.proc_mesh
        if not self.rank.extent.labels:
            return mesh
        return mesh.slice(**dict(self.rank))

    def as_creator(self) -> CreatorInstance:
        """What the actors that it makes know of it."""
        return CreatorInstance(
            rank=self.rank,
            proc_mesh=self.proc_mesh,
            proc=self.proc,
            name=self.name,
            class_name=self.class_name,
            creator=self.creator,
        )

    def abort(self, reason: str | None = None) -> None:
        """Die, with a supervision event whose report has the reason."""
        self.runtime.abort_actor(self.uid, reason or "no reason provided")

    kill = abort

    def stop(self, reason: str | None = None) -> None:
        """End in good order after the messages that are queued already."""
        self.runtime.stop_own_actor(self.uid, reason or "stopped by itself")

    def set_system(self) -> None:
        """Hide it from lists for users."""
        self._system = True

    def __repr__(self) -> str:
        return self.path


class Context:
    """The actor that runs, and where the message that it handles was sent to."""

    __slots__ = ("_point", "actor_instance", "call")

    def __init__(self, actor_instance: Instance, call: Call | None = None) -> None:
        self.actor_instance = actor_instance
        self.call = call
        self._point: Point | None = None

    @property
    def message_rank(self) -> Point:
        """Position in the mesh that the message was sent to."""
        if self._point is None:
            call = self.call
            if call is None:
                # A constructor, a clean-up: what it was spawned in is what it is sent to.
                self._point = self.actor_instance.rank
            elif not call.extent:
                self._point = Point(0, _SINGLE)
            else:
                self._point = Point(call.rank, extent_from(call.extent))
        return self._point

    def __repr__(self) -> str:
        return f"<Context of {self.actor_instance!r}>"


_extents: dict[bytes, Extent] = {}


def extent_from(encoded: bytes) -> Extent:
    """The extent that a message names; few different ones are ever seen."""
    extent = _extents.get(encoded)
    if extent is None:
        import msgspec

        labels, sizes = msgspec.msgpack.decode(encoded)
        if len(_extents) > 1000:  # noqa: PLR2004  # a bound, not a parameter
            _extents.clear()
        extent = _extents[encoded] = Extent(labels, sizes)
    return extent
