"""Controllers: actors of which a job has one, found by name.

They live in the process of the job's client, and so does the actor that makes them: the registry,
which itself is made when somebody asks it for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from danaus._mesh.actor import Actor, concurrent_endpoint
from danaus._mesh.actor_mesh import ActorMesh
from danaus._mesh.actor_ref import ActorRef
from danaus._mesh.proc_mesh import own_mesh
from danaus._mesh.proc_table import ProcTable
from danaus._runtime.process import context, on_boot
from danaus._shape import NDSlice, Shape
from danaus.errors import SupervisionError

if TYPE_CHECKING:
    from danaus._runtime.future import Future
    from danaus._runtime.router import Runtime
    from danaus.errors import MeshFailure

__all__ = ["get_or_spawn_controller"]

TActor = TypeVar("TActor", bound=Actor)

_REGISTRY = "@controllers"
"""Id of the registry; there is one in each client."""


_MAKER = "@maker"
"""Id of the actor that is said to have spawned it."""


class _Controllers(Actor):
    """Makes each controller once."""

    _is_system_actor = True

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, Future[None]]] = {}

    @concurrent_endpoint
    async def find(
        self, name: str, cls: type[Actor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The controller of that name, once its constructor has returned."""
        known = self._known.get(name)
        if known is None:
            mesh: Any = context().actor_instance.proc.spawn(name, cls, *args, **kwargs)
            known = self._known[name] = (mesh, mesh.initialized)
        mesh, ready = known
        try:
            await ready
        except SupervisionError as error:
            why = error.failure.reason if error.failure is not None else str(error)
            raise ValueError(f"Failure on {name}: {why}") from None
        return mesh

    async def __supervise__(self, failure: MeshFailure) -> bool:
        """A controller that has died is made anew by who asks next; who calls the old one hears.

        One whose constructor raised stays as it is: the next attempt would raise, too.
        """
        known = self._known.get(failure.mesh_name)
        if known is not None and known[1].done and known[1].exception(0) is None:
            del self._known[failure.mesh_name]
        return True


def get_or_spawn_controller(
    name: str,
    Class: type[TActor],  # noqa: N803  # compatible
    *args: Any,
    **kwargs: Any,
) -> Future[TActor]:
    """The controller of that name: one a job, made by whoever asks first.

    It lives in the client's process. Any actor of the job may ask for it, as often as it likes;
    concurrent first calls construct it once, and later arguments have no effect. A controller that
    has died is made anew by the next call.

    Args:
        name: Name of the controller in the job.
        Class: Its class.
        args: Arguments of its constructor.
        kwargs: Likewise.

    Raises, from the future:
        ActorError: The constructor raised; also a `ValueError`. Later calls raise the same.

    Example:
        >>> store = get_or_spawn_controller("store", Store).get()
        >>> store.put.call_one("step", 7).get()
    """
    me = context().actor_instance.runtime
    if me.spec:
        root = (me.spec["root"], me.spec.get("root_agent") or me.spec["agent"])
    else:
        root = (me.id, "")
    table = ProcTable(_REGISTRY, [root])
    single = Shape([], NDSlice(offset=0, sizes=[], strides=[]))
    reference = ActorRef(_REGISTRY, "controllers", _Controllers, table, single)
    registry: ActorMesh[_Controllers] = ActorMesh(reference)
    return registry.find.call_one(name, Class, args, kwargs)


def _prepare(made: Runtime) -> None:
    def make() -> None:
        # Not in the name of the root actor: its messages to the registry have numbers already, and
        # the spawn must be the first.
        maker = made.context_of(_MAKER)
        own_mesh(made).spawn_as(_REGISTRY, maker, ("controllers", _Controllers), (), {})

    made.on_demand[_REGISTRY] = make


on_boot(_prepare)
