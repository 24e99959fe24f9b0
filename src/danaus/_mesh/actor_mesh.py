"""Meshes of actors: references that can be sliced, pickled and called."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from danaus._mesh.endpoint import Endpoint
from danaus._runtime.endpoints import EndpointProperty, Signature
from danaus._runtime.future import Future, new_future
from danaus._runtime.process import runtime
from danaus._shape import MeshTrait, NDSlice, Shape

if TYPE_CHECKING:
    from danaus._mesh.proc_table import ProcTable
    from danaus._runtime.router import Target

__all__ = ["ActorMesh", "NotAnEndpoint", "endpoint_collisions"]

T = TypeVar("T")


class NotAnEndpoint:
    """A method of an actor's class that is not marked as an endpoint."""

    def __init__(self, mesh: ActorMesh[Any], name: str, method: Any) -> None:
        self._mesh = mesh
        self._name = name
        self._method = method

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        cls = self._mesh._class_name
        raise RuntimeError(
            f"Actor {cls}.{self._name} is not annotated as an endpoint. To call it as one, add a "
            "@endpoint decorator to it, or directly wrap it in one as_endpoint(obj.method).call(...)"
        )

    __call__ = call = call_one = choose = stream = broadcast = _refuse

    def as_endpoint(self, *, explicit_response_port: bool) -> Endpoint:
        """The endpoint that it would be."""
        mark = "!!" if explicit_response_port else "!"
        skip = 2 if explicit_response_port else 1
        return Endpoint(self._mesh, mark + self._name, Signature(self._method, skip))


class ActorMesh(MeshTrait, Generic[T]):
    """A mesh of actors of one class, one in each process of a proc mesh.

    The endpoints of the class are its attributes: ``mesh.method.call(x)``. It can be sliced and
    reshaped, passed in messages, kept; the actors belong to the actor that spawned them.
    """

    def __init__(
        self,
        uid: str,
        name: str,
        cls: type,
        table: ProcTable,
        shape: Shape,
        *,
        proc_mesh: Any = None,
        owned: bool = False,
    ) -> None:
        self._uid = uid
        self._name_text = name
        self._cls = cls
        self._class_name = cls.__name__
        self._table = table
        self._shape_now = shape
        self._proc_mesh = proc_mesh
        self._owned = owned
        self._cached_targets: tuple[int, list[Target]] | None = None
        self._cached_ranks: list[int] | None = None
        self._extent_bytes: bytes | None = None

    # shape

    @property
    def _ndslice(self) -> NDSlice:
        return self._shape_now.ndslice

    @property
    def _labels(self) -> Sequence[str]:
        return self._shape_now.labels

    def _as_shape(self) -> Shape:
        return self._shape_now

    def _new_with_shape(self, shape: Shape) -> ActorMesh[T]:
        return ActorMesh(
            self._uid, self._name_text, self._cls, self._table, shape, proc_mesh=self._proc_mesh
        )

    def __bool__(self) -> bool:
        return True

    # targets

    def _targets(self) -> list[Target]:
        """Each actor's (process, address, rank in this mesh)."""
        cached = self._cached_targets
        version = self._table.version
        if cached is not None and cached[0] == version:
            return cached[1]
        procs = self._table.procs
        targets = [(*procs[base], rank) for rank, base in enumerate(self._base_ranks())]
        self._cached_targets = (version, targets)
        return targets

    def _base_ranks(self) -> list[int]:
        """Ranks in the mesh as it was spawned."""
        if self._cached_ranks is None:
            self._cached_ranks = self._ndslice.ranks()
        return self._cached_ranks

    def _encoded_extent(self) -> bytes:
        if self._extent_bytes is None:
            shape = self._shape_now
            labels = list(shape.labels)
            self._extent_bytes = (
                msgspec.msgpack.encode((labels, list(shape.ndslice.sizes))) if labels else b""
            )
        return self._extent_bytes

    def _reply_shape(self) -> Shape:
        shape = self._shape_now
        return Shape(shape.labels, NDSlice.new_row_major(shape.ndslice.sizes))

    # endpoints

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = inspect.getattr_static(self._cls, name, None)
        if isinstance(found, EndpointProperty):
            made = Endpoint(self, name, found.signature)
            self.__dict__[name] = made
            return made
        if found is None:
            raise AttributeError(
                f"actor class {self._class_name} has no attribute {name!r}{_near(self._cls, name)}"
            )
        method = getattr(self._cls, name)
        if callable(method):
            return NotAnEndpoint(self, name, method)
        raise AttributeError(
            f"{self._class_name}.{name} is not an endpoint; attributes of actors are not reachable "
            "through their mesh"
        )

    # life

    @property
    def initialized(self) -> Future[None]:
        """Settled when every actor's constructor has returned, or with why one did not."""
        from danaus._mesh.readiness import actors_ready

        return actors_ready(self)

    @property
    def _name(self) -> Future[str]:
        """Unique name of the mesh."""
        future = new_future(None)
        future.set_value(self._name_text)
        return future

    def stop(self, reason: str = "stopped by client") -> Future[None]:
        """End the actors in good order: what is queued is handled, then ``__cleanup__`` runs.

        Raises:
            NotImplementedError: This is a slice, or a reference that was received.
        """
        me = runtime()
        owned = me.faults.owned.get(self._uid)
        if self._uid in me.faults.stopped and owned is None:
            future = new_future(None)
            future.set_value(None)
            return future
        if not self._owned or owned is None:
            raise NotImplementedError(
                f"actor mesh {self._name_text!r} is a reference or a slice; "
                "only the whole mesh can be stopped, by the actor that spawned it"
            )
        return me.faults.stop_mesh(owned, reason)

    def __reduce__(self) -> Any:
        shape = self._shape_now
        return (
            _rebuild,
            (self._uid, self._name_text, self._cls, self._table, shape, self._proc_mesh),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorMesh):
            return NotImplemented
        return self._uid == other._uid and self._shape_now == other._shape_now

    def __hash__(self) -> int:
        return hash(self._uid)

    def __repr__(self) -> str:
        return f"<ActorMesh {self._name_text} of {self._class_name} {self.extent}>"


def _rebuild(
    uid: str, name: str, cls: type, table: ProcTable, shape: Shape, proc_mesh: Any
) -> ActorMesh[Any]:
    return ActorMesh(uid, name, cls, table, shape, proc_mesh=proc_mesh)


def _near(cls: type, name: str) -> str:
    import difflib

    names = [n for n in dir(cls) if not n.startswith("_")]
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def endpoint_collisions(cls: type) -> list[str]:
    """Endpoints of a class that a mesh's own attributes would hide."""
    taken = {n for n in dir(ActorMesh) if not n.startswith("__")}
    return [
        name
        for name in dir(cls)
        if name in taken and isinstance(inspect.getattr_static(cls, name), EndpointProperty)
    ]
