"""Endpoints of a mesh and their adverbs: how many are called, and what comes back."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from random import choice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from danaus._runtime.collect import ManyReplies, OneReply, StreamReplies
from danaus._runtime.outgoing import OutgoingCall
from danaus._runtime.process import context
from danaus._shape import ValueMesh
from danaus._wire.codec import dumps_call
from danaus.errors import SupervisionError

if TYPE_CHECKING:
    from danaus._mesh.actor_ref import ActorRef
    from danaus._runtime.context import Context
    from danaus._runtime.endpoints import Signature
    from danaus._runtime.future import Future
    from danaus._runtime.outbox import Target
    from danaus._runtime.ports import Port
    from danaus._runtime.router import Runtime

__all__ = ["Endpoint", "ValueStream", "as_endpoint", "send"]

R = TypeVar("R")


_choosing = threading.Lock()
"""Guards the counts of `Endpoint.choose`."""


class ValueStream(Generic[R]):
    """The replies of a `stream`, one future each, in order of arrival."""

    def __init__(self, futures: Sequence[Future[R]]) -> None:
        self._futures = iter(futures)
        self._left = len(futures)

    def __iter__(self) -> Iterator[Future[R]]:
        return self

    def __next__(self) -> Future[R]:
        future = next(self._futures)
        self._left -= 1
        return future

    def __len__(self) -> int:
        return self._left


class Endpoint:
    """A method of all actors of a mesh."""

    __slots__ = ("_actors", "_method", "_outstanding", "_signature")

    def __init__(self, actors: ActorRef, method: str, signature: Signature) -> None:
        self._actors = actors
        self._method = method
        self._signature = signature
        self._outstanding: dict[int, int] = {}
        """Calls of `choose` that are not answered, by position in the mesh."""

    def __repr__(self) -> str:
        return f"<Endpoint {self._method.lstrip('!')} of {self._actors!r}>"

    @property
    def name(self) -> str:
        """Name of the method."""
        return self._method.lstrip("!")

    def _outgoing(self) -> OutgoingCall:
        actors = self._actors
        return OutgoingCall(actors.uid, actors.name, actors.class_name, self._method)

    def _send(
        self,
        caller: Context,
        me: Runtime,
        targets: Sequence[Target],
        call: OutgoingCall,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        parts = dumps_call(args, kwargs)
        if len(targets) > 1:
            call.where = self._actors.where()
        me.outbox.cast(caller, call, targets, self._actors.encoded_extent(), parts)

    def call(self, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call all; a future of the `ValueMesh` of what they return.

        Raises, from the future:
            ActorError: The exception of the lowest rank that raised one; all have answered then.
            SupervisionError: One died, or was dead.
        """
        shape = self._actors.reply_shape()
        return self.call_and_assemble(functools.partial(ValueMesh, shape), b"", args, kwargs)

    def call_and_assemble(
        self,
        assemble: Callable[[list[Any]], Any],
        combine: bytes,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Future[Any]:
        """Call all; a future of what ``assemble`` makes of the values, by ascending ranks.

        Args:
            assemble: Called by who waits for the future.
            combine: A pickled function that may combine values on their way; empty for none.
            args: Positional arguments.
            kwargs: Keyword arguments.
        """
        self._signature.check(args, kwargs)
        actors = self._actors
        caller = context()
        me = caller.actor_instance.runtime
        targets = actors.targets()
        call = self._outgoing()
        call.combine = combine
        failure = me.faults.check(actors.uid, actors.base_ranks())
        collector = ManyReplies(
            me.reactor, [(proc, rank) for proc, _, rank in targets], call, assemble
        )
        if failure is not None:
            collector.future.set_error(
                SupervisionError.for_call(call.endpoint, failure, known=True)
            )
            return collector.future
        self._check_stopped(me, call)
        call.port = me.new_port(collector)
        try:
            self._send(caller, me, targets, call, args, kwargs)
        except BaseException:
            me.ports.pop(call.port, None)
            raise
        return collector.future

    def call_one(self, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the only actor of the mesh; a future of what it returns.

        Raises:
            ValueError: The mesh has not exactly one actor.
        """
        actors = self._actors
        targets = actors.targets()
        if len(targets) != 1:
            raise ValueError(
                f"call_one requires exactly 1 actor, but mesh has {len(targets)}; "
                "slice the mesh, or use `call`"
            )
        return self._one(targets[0], 0, args, kwargs)

    def _one(
        self, target: Target, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        self._signature.check(args, kwargs)
        actors = self._actors
        caller = context()
        me = caller.actor_instance.runtime
        call = self._outgoing()
        collector = OneReply(me.reactor, (target[0], target[2]), call)
        faults = me.faults
        if faults.failed or faults.stopped:
            failure = faults.check(actors.uid, (actors.base_ranks()[position],))
            if failure is not None:
                collector.future.set_error(
                    SupervisionError.for_call(call.endpoint, failure, known=True)
                )
                return collector.future
            self._check_stopped(me, call)
        call.port = me.new_port(collector)
        try:
            self._send(caller, me, (target,), call, args, kwargs)
        except BaseException:
            me.ports.pop(call.port, None)
            raise
        return collector.future

    def choose(self, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call one of them: the one with the fewest unanswered `choose` calls from here.

        Ties are broken at random. Ranks that are known to have failed are left out, as long as
        there are others.
        """
        self._signature.check(args, kwargs)
        targets = self._actors.targets()
        outstanding = self._outstanding
        with _choosing:
            alive = self._alive()
            least = min(outstanding.get(i, 0) for i in alive)
            position = choice([i for i in alive if outstanding.get(i, 0) == least])  # noqa: S311  # no secret
            outstanding[position] = outstanding.get(position, 0) + 1

        def answered() -> None:
            with _choosing:
                outstanding[position] -= 1

        try:
            future = self._one(targets[position], position, args, kwargs)
        except BaseException:
            answered()
            raise
        future.add_callback(answered)
        return future

    def _alive(self) -> Sequence[int]:
        """Positions of the actors that have not failed; of all, where all have."""
        faults = context().actor_instance.runtime.faults
        ranks = self._actors.base_ranks()
        everybody = range(len(ranks))
        if self._actors.uid not in faults.failed:
            return everybody
        alive = [i for i in everybody if faults.check(self._actors.uid, (ranks[i],)) is None]
        return alive or everybody

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Not how endpoints are called: raises the TypeError that says how."""
        del args, kwargs
        raise TypeError(
            f"{self.name} is an endpoint of a mesh of actors: say how many are called, as in "
            f"mesh.{self.name}.call(...), .call_one(...), .choose(...), .stream(...) or "
            ".broadcast(...)"
        )

    def stream(self, /, *args: Any, **kwargs: Any) -> ValueStream[Any]:
        """Call all; an iterator of one future a reply, in order of arrival."""
        self._signature.check(args, kwargs)
        actors = self._actors
        caller = context()
        me = caller.actor_instance.runtime
        targets = actors.targets()
        call = self._outgoing()
        collector = StreamReplies(me.reactor, [(proc, rank) for proc, _, rank in targets], call)
        failure = me.faults.check(actors.uid, actors.base_ranks())
        if failure is not None:
            for future in collector.futures:
                future.set_error(SupervisionError.for_call(call.endpoint, failure, known=True))
            return ValueStream(collector.futures)
        self._check_stopped(me, call)
        call.port = me.new_port(collector)
        try:
            self._send(caller, me, targets, call, args, kwargs)
        except BaseException:
            me.ports.pop(call.port, None)
            raise
        return ValueStream(collector.futures)

    def broadcast(self, /, *args: Any, **kwargs: Any) -> None:
        """Send to all and want no answer. An exception there is the death of the actor."""
        self._signature.check(args, kwargs)
        actors = self._actors
        caller = context()
        me = caller.actor_instance.runtime
        call = self._outgoing()
        faults = me.faults
        if faults.failed or faults.stopped:
            failure = faults.check(actors.uid, actors.base_ranks())
            if failure is not None:
                raise SupervisionError.for_call(call.endpoint, failure, known=True)
            self._check_stopped(me, call)
        self._send(caller, me, actors.targets(), call, args, kwargs)

    def send_to_port(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        port: Port[Any] | None,
        *,
        one: bool,
    ) -> None:
        """Send to all, or to one at random; replies go to ``port``, or to nobody."""
        self._signature.check(args, kwargs)
        caller = context()
        me = caller.actor_instance.runtime
        call = self._outgoing()
        self._check_stopped(me, call)
        targets = self._actors.targets()
        if one:
            targets = [choice(targets)]  # noqa: S311  # no secret
        if port is not None:
            # Replies name the rank that was called, so that is what the port must expect.
            call.port = port.expect(me, [(proc, rank) for proc, _, rank in targets])
        self._send(caller, me, targets, call, args, kwargs)

    def rref(self, /, *args: Any, **kwargs: Any) -> Any:
        """Belongs to the tensor engine, which Danaus does not have."""
        del args, kwargs
        raise NotImplementedError(
            "rref needs a tensor engine, which danaus does not have; use call, stream or choose"
        )

    def _check_stopped(self, me: Runtime, call: OutgoingCall) -> None:
        reason = me.faults.stopped.get(call.actor)
        if reason is not None:
            raise SupervisionError.for_stopped(call.endpoint, call.mesh_name, reason)


def send(
    endpoint: Endpoint,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    port: Port[Any] | None = None,
    selection: str = "all",
) -> None:
    """Send a message whose replies go to ``port``, or to nobody: what the adverbs are made of.

    Args:
        endpoint: What to call.
        args: Positional arguments.
        kwargs: Keyword arguments.
        port: Where replies go.
        selection: "all", or "choose" for one at random.

    Raises:
        TypeError: ``endpoint`` is no endpoint of a mesh.
        ValueError: The selection is neither.
    """
    if not isinstance(endpoint, Endpoint):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all checked
        raise TypeError(f"send needs an endpoint of a mesh, such as actors.step; got {endpoint!r}")
    if selection not in ("all", "choose"):
        raise ValueError(f"Invalid selection: {selection}; expected 'all' or 'choose'")
    endpoint.send_to_port(args, kwargs, port, one=selection == "choose")


def as_endpoint(
    not_an_endpoint: Any, *, propagate: Any = None, explicit_response_port: bool = False
) -> Endpoint:
    """Turn an undecorated method of a spawned actor into an endpoint.

    Example:
        >>> as_endpoint(mesh.plain_method).call_one(1).get()

    Raises:
        ValueError: It is not a method of a mesh of actors.
    """
    from danaus._mesh.actor_mesh import NotAnEndpoint

    del propagate
    if not isinstance(not_an_endpoint, NotAnEndpoint):
        raise ValueError("expected an method of a spawned actor")  # noqa: TRY004  # compatible
    return not_an_endpoint.as_endpoint(explicit_response_port=explicit_response_port)
