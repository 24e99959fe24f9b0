"""Actors, meshes and hosts: the names that most programs need.

Example:
    >>> from danaus.actor import Actor, endpoint, this_host
    >>> class Counter(Actor):
    ...     def __init__(self) -> None:
    ...         self.value = 0
    ...     @endpoint
    ...     def add(self, n: int) -> int:
    ...         self.value += n
    ...         return self.value
    >>> counters = this_host().spawn_procs(per_host={"procs": 2}).spawn("counters", Counter)
    >>> list(counters.add.call(5).get().values())
    [5, 5]
"""

from __future__ import annotations

from danaus._mesh.accumulator import Accumulator
from danaus._mesh.actor import Actor, concurrent_endpoint, endpoint
from danaus._mesh.actor_mesh import ActorMesh
from danaus._mesh.client import (
    current_actor_name,
    current_rank,
    current_size,
    shutdown_context,
    statistics,
    unhandled_fault_hook,
)
from danaus._mesh.controllers import get_or_spawn_controller
from danaus._mesh.endpoint import Endpoint, ValueStream, as_endpoint, send
from danaus._mesh.host_mesh import (
    BootstrapCommand,
    HostMesh,
    default_bootstrap_cmd,
    this_host,
    this_proc,
)
from danaus._mesh.mocks import (
    get_actor_class,
    get_actor_mock_registry_state,
    patch_actor,
    set_actor_mock_registry_state,
)
from danaus._mesh.proc_mesh import (
    ProcMesh,
    register_proc_mesh_spawn_callback,
    unregister_proc_mesh_spawn_callback,
)
from danaus._mesh.workers import (
    attach,
    attach_to_workers,
    enable_transport,
    run_worker_loop_forever,
    run_worker_loop_until_shutdown,
)
from danaus._runtime.call import UndeliverableMessageEnvelope
from danaus._runtime.context import Context, CreatorInstance, Instance
from danaus._runtime.future import Future
from danaus._runtime.ports import Channel, Port, PortReceiver, RankedPortReceiver
from danaus._runtime.process import context
from danaus._runtime.python_logs import config
from danaus._runtime.uid import ProcId, Uid
from danaus._shape import Extent, NDSlice, Point, Shape, Slice, ValueMesh
from danaus.errors import ActorError, CycleError, MeshFailure, SerializationError, SupervisionError

__all__ = [
    "Accumulator",
    "Actor",
    "ActorError",
    "ActorMesh",
    "BootstrapCommand",
    "Channel",
    "Context",
    "CreatorInstance",
    "CycleError",
    "Endpoint",
    "Extent",
    "Future",
    "HostMesh",
    "Instance",
    "MeshFailure",
    "NDSlice",
    "Point",
    "Port",
    "PortReceiver",
    "ProcId",
    "ProcMesh",
    "RankedPortReceiver",
    "SerializationError",
    "Shape",
    "Slice",
    "SupervisionError",
    "Uid",
    "UndeliverableMessageEnvelope",
    "ValueMesh",
    "ValueStream",
    "as_endpoint",
    "attach",
    "attach_to_workers",
    "concurrent_endpoint",
    "config",
    "context",
    "current_actor_name",
    "current_rank",
    "current_size",
    "default_bootstrap_cmd",
    "enable_transport",
    "endpoint",
    "get_actor_class",
    "get_actor_mock_registry_state",
    "get_or_spawn_controller",
    "patch_actor",
    "register_proc_mesh_spawn_callback",
    "run_worker_loop_forever",
    "run_worker_loop_until_shutdown",
    "send",
    "set_actor_mock_registry_state",
    "shutdown_context",
    "statistics",
    "this_host",
    "this_proc",
    "unhandled_fault_hook",
    "unregister_proc_mesh_spawn_callback",
]
