"""Meshes of actors: references that can be sliced, pickled and called."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from danaus._mesh.actor_ref import ActorRef
from danaus._mesh.endpoint import Endpoint
from danaus._runtime.endpoints import EndpointProperty, Signature
from danaus._runtime.future import Future, new_future
from danaus._runtime.process import runtime
from danaus._shape import MeshTrait, NDSlice, Shape

if TYPE_CHECKING:
    from danaus._mesh.proc_table import ProcTable

__all__ = ["ActorMesh", "NotAnEndpoint", "endpoint_collisions"]

T = TypeVar("T")


class NotAnEndpoint:
    """A method of an actor's class that is not marked as an endpoint."""

    def __init__(self, actors: ActorRef, name: str, method: Any) -> None:
        self._actors = actors
        self._name = name
        self._method = method

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        cls = self._actors.class_name
        raise RuntimeError(
            f"Actor {cls}.{self._name} is not annotated as an endpoint. To call it as one, add a "
            "@endpoint decorator to it, or directly wrap it in one as_endpoint(obj.method).call(...)"
        )

    __call__ = call = call_one = choose = stream = broadcast = _refuse

    def as_endpoint(self, *, explicit_response_port: bool) -> Endpoint:
        """The endpoint that it would be."""
        mark = "!!" if explicit_response_port else "!"
        skip = 2 if explicit_response_port else 1
        return Endpoint(self._actors, mark + self._name, Signature(self._method, skip))


class ActorMesh(MeshTrait, Generic[T]):
    """A mesh of actors of one class, one in each process of a proc mesh.

    The endpoints of the class are its attributes: ``mesh.method.call(x)``. It can be sliced and
    reshaped, passed in messages, kept; the actors belong to the actor that spawned them.
    """

    def __init__(self, actors: ActorRef, *, proc_mesh: Any = None, owned: bool = False) -> None:
        self._actors = actors
        self._proc_mesh = proc_mesh
        self._owned = owned

    # shape

    @property
    def _ndslice(self) -> NDSlice:
        return self._actors.shape.ndslice

    @property
    def _labels(self) -> Sequence[str]:
        return self._actors.shape.labels

    def _as_shape(self) -> Shape:
        return self._actors.shape

    def _new_with_shape(self, shape: Shape) -> ActorMesh[T]:
        return ActorMesh(self._actors.reshaped(shape), proc_mesh=self._proc_mesh)

    def __bool__(self) -> bool:
        return True

    # endpoints

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_actors":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        cls = self._actors.cls
        found = inspect.getattr_static(cls, name, None)
        if isinstance(found, EndpointProperty):
            made = Endpoint(self._actors, name, found.signature)
            self.__dict__[name] = made
            return made
        if found is None:
            raise AttributeError(
                f"actor class {cls.__name__} has no attribute {name!r}{_near(cls, name)}"
            )
        method = getattr(cls, name)
        if callable(method):
            return NotAnEndpoint(self._actors, name, method)
        raise AttributeError(
            f"{cls.__name__}.{name} is not an endpoint; attributes of actors are not reachable "
            "through their mesh"
        )

    def __dir__(self) -> list[str]:
        cls = self._actors.cls
        found = (
            n for n in dir(cls) if isinstance(inspect.getattr_static(cls, n), EndpointProperty)
        )
        return sorted({*super().__dir__(), *found})

    # life

    @property
    def initialized(self) -> Future[None]:
        """Settled when every actor's constructor has returned, or with why one did not."""
        from danaus._mesh.readiness import actors_ready

        return actors_ready(self._actors)

    @property
    def _name(self) -> Future[str]:
        """Unique name of the mesh."""
        future = new_future(None)
        future.set_value(self._actors.name)
        return future

    def stop(self, reason: str = "stopped by client") -> Future[None]:
        """End the actors in good order: what is queued is handled, then ``__cleanup__`` runs.

        Raises:
            NotImplementedError: This is a slice, or a reference that was received.
        """
        me = runtime()
        uid = self._actors.uid
        owned = me.faults.owned.get(uid)
        if uid in me.faults.stopped and owned is None:
            future = new_future(None)
            future.set_value(None)
            return future
        if not self._owned or owned is None:
            raise NotImplementedError(
                f"actor mesh {self._actors.name!r} is a reference or a slice; "
                "only the whole mesh can be stopped, by the actor that spawned it"
            )
        return me.faults.stop_mesh(owned, reason)

    def __reduce__(self) -> Any:
        actors = self._actors
        fields = (actors.uid, actors.name, actors.cls, actors.table, actors.shape)
        return (_rebuild, (*fields, self._proc_mesh))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorMesh):
            return NotImplemented
        mine, others = self._actors, other._actors
        return mine.uid == others.uid and mine.shape == others.shape

    def __hash__(self) -> int:
        return hash(self._actors.uid)

    def __repr__(self) -> str:
        return f"<ActorMesh {self._actors!r}>"


def _rebuild(
    uid: str, name: str, cls: type, table: ProcTable, shape: Shape, proc_mesh: Any
) -> ActorMesh[Any]:
    return ActorMesh(ActorRef(uid, name, cls, table, shape), proc_mesh=proc_mesh)


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
