"""The owner itself copies: the last resort, where nobody else may touch its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from danaus._mesh.actor import Actor, endpoint
from danaus._mesh.actor_mesh import ActorMesh
from danaus._mesh.actor_ref import ActorRef
from danaus._mesh.proc_mesh import own_mesh
from danaus._mesh.proc_table import ProcTable
from danaus._shape import NDSlice, Shape
from danaus.errors import BufferGone

if TYPE_CHECKING:
    from danaus._buffer.local_memory import LocalMemory
    from danaus._runtime.router import Runtime

__all__ = ["Stager", "serve", "stager_of"]

_STAGER = "@stager"
"""Id of the actor; there is one in each process that has buffers."""

_MAKER = "@stager-maker"


class Stager(Actor):
    """Copies pieces of registered memory into messages, and back."""

    _is_system_actor = True

    @endpoint
    def read(self, key: int, offset: int, nbytes: int) -> bytearray:
        """Some bytes of a region."""
        return bytearray(_find(key).view(offset, nbytes))

    @endpoint
    def write(self, key: int, offset: int, data: Any) -> None:
        """Replace some bytes of a region."""
        memory = _find(key)
        if memory.readonly:
            raise PermissionError("the memory of this buffer is read-only")
        view = memoryview(data)
        memory.view(offset, view.nbytes)[:] = view.cast("B")

    @endpoint
    def drop(self, key: int) -> None:
        """Let nobody touch a region any more."""
        from danaus._buffer.regions import regions

        regions().drop(key)


def _find(key: int) -> LocalMemory:
    from danaus._buffer.regions import regions

    memory = regions().find(key)
    if memory is None:
        raise BufferGone("it was dropped")
    return memory


def serve(runtime: Runtime) -> None:
    """Have the stager of this process made when somebody asks for it."""
    if _STAGER in runtime.cells or _STAGER in runtime.on_demand:
        return

    def make() -> None:
        maker = runtime.context_of(_MAKER)
        own_mesh(runtime).spawn_as(_STAGER, maker, ("stager", Stager), (), {})

    runtime.on_demand[_STAGER] = make


def stager_of(proc: str, address: str) -> Any:
    """The stager of another process."""
    table = ProcTable(_STAGER, [(proc, address)])
    single = Shape([], NDSlice(offset=0, sizes=[], strides=[]))
    mesh: ActorMesh[Stager] = ActorMesh(ActorRef(_STAGER, "stager", Stager, table, single))
    return mesh
