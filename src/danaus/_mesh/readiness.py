"""When a mesh is ready: futures over the constructors and bootstraps of its processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from danaus._runtime.cell import READY
from danaus._runtime.collect import ManyReplies
from danaus._runtime.outgoing import OutgoingCall
from danaus._runtime.process import context
from danaus._runtime.setup import SETUP
from danaus._wire.codec import dumps_call
from danaus.errors import SupervisionError

if TYPE_CHECKING:
    from danaus._mesh.actor_ref import ActorRef
    from danaus._runtime.context import Context
    from danaus._runtime.future import Future
    from danaus._runtime.outbox import Target

__all__ = ["actors_ready", "procs_ready"]


def actors_ready(actors: ActorRef) -> Future[None]:
    """Settled with None when all constructors have returned."""
    call = OutgoingCall(actors.uid, actors.name, actors.class_name, "__init__")
    return _ask(actors.uid, actors.targets(), actors.base_ranks(), call, lambda _values: None)


def procs_ready(
    uid: str, name: str, targets: Sequence[Target], base_ranks: Sequence[int]
) -> Future[bool]:
    """Settled with True when these processes run and their bootstraps have returned.

    Args:
        uid: Id of the mesh.
        name: Its name, for error texts.
        targets: The processes.
        base_ranks: Their ranks in the mesh as it was spawned.
    """
    call = OutgoingCall(uid, name, "", "initialized")
    return _ask(SETUP, targets, base_ranks, call, lambda _values: True)


def _ask(
    actor: str,
    targets: Sequence[Target],
    base_ranks: Sequence[int],
    call: OutgoingCall,
    assemble: Callable[[list[Any]], Any],
) -> Future[Any]:
    caller: Context = context()
    me = caller.actor_instance.runtime
    collector = ManyReplies(me.reactor, [(proc, rank) for proc, _, rank in targets], call, assemble)
    failure = me.faults.check(call.actor, base_ranks)
    if failure is not None:
        error = SupervisionError.for_call(call.endpoint, failure, known=True)
        collector.future.set_error(error)
        return collector.future
    stopped = me.faults.stopped.get(call.actor)
    if stopped is not None:
        error = SupervisionError.for_stopped(call.endpoint, call.mesh_name, stopped)
        collector.future.set_error(error)
        return collector.future
    call.port = me.new_port(collector)
    question = OutgoingCall(actor, call.mesh_name, call.class_name, READY)
    question.port = call.port
    question.where = tuple(targets)
    me.outbox.cast(caller, question, targets, b"", dumps_call((), {}))
    return collector.future
