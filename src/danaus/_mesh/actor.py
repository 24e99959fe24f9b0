"""The base class of actors, and the decorators that mark endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

from danaus._runtime.endpoints import EndpointProperty, is_async_method
from danaus._shape import MeshTrait

if TYPE_CHECKING:
    import logging

    from danaus._runtime.call import UndeliverableMessageEnvelope
    from danaus.errors import MeshFailure

__all__ = ["Actor", "concurrent_endpoint", "endpoint"]

_NOT_A_MESH = (
    "actor implementations are not meshes, but we can't convince the typechecker of it. "
    "Mesh operations exist on what `spawn` returned, not on `self`."
)


class Actor(MeshTrait):
    """Base class of actors: state in a process, methods that can be called from anywhere.

    ``__init__`` runs once in each process that the actor is spawned on, with the arguments of
    `spawn`. Messages are handled one at a time, those of one sender in the order of sending.

    Hooks, each sync or async:

    * ``__supervise__(self, failure) -> bool``: something that this actor spawned has failed. Runs
      between messages. True: handled. Otherwise this actor fails too, and its owner is asked.
    * ``_handle_undeliverable_message(self, message) -> bool``: what this actor sent to a port could
      not be delivered, because the process that the port belongs to is gone. True: no matter.
      Otherwise this actor fails. Ports whose ``return_undeliverable`` is False do not ask.
    * ``__cleanup__(self, exc)``: the actor ends; ``exc`` is None when it was stopped. Not called
      when its process dies. Time-boxed by ``cleanup_timeout``.

    Example:
        >>> class Counter(Actor):
        ...     def __init__(self, start: int = 0) -> None:
        ...         self.value = start
        ...     @endpoint
        ...     def add(self, n: int) -> int:
        ...         self.value += n
        ...         return self.value
    """

    _is_system_actor = False

    @cached_property
    def logger(self) -> logging.Logger:
        """A logger named after the class, level DEBUG."""
        import logging  # a fifth of the import budget

        logger = logging.getLogger(type(self).__name__)
        logger.setLevel(logging.DEBUG)
        return logger

    @property
    def _ndslice(self) -> Any:
        raise NotImplementedError(_NOT_A_MESH)

    @property
    def _labels(self) -> Any:
        raise NotImplementedError(_NOT_A_MESH)

    def _new_with_shape(self, shape: Any) -> NoReturn:
        raise NotImplementedError(_NOT_A_MESH)

    def slice(self, /, **selectors: Any) -> Any:
        """Exists on meshes; on an actor itself it is an error."""
        raise NotImplementedError(_NOT_A_MESH)

    @property
    def initialized(self) -> Any:
        """Exists on meshes; on an actor itself it is an error."""
        raise NotImplementedError(_NOT_A_MESH)

    def stop(self, reason: str = "stopped by client") -> Any:
        """Exists on meshes; on an actor itself it is an error."""
        raise NotImplementedError(_NOT_A_MESH)

    def __bool__(self) -> bool:
        return True

    def __supervise__(self, failure: MeshFailure) -> Awaitable[bool] | bool:
        """Decide about the failure of something that this actor spawned; see the class."""
        del failure
        return False

    def _handle_undeliverable_message(
        self, message: UndeliverableMessageEnvelope
    ) -> Awaitable[bool] | bool:
        """A message of this actor could not be delivered; see the class."""
        del message
        return False


def endpoint(
    method: Callable[..., Any] | None = None,
    *,
    propagate: Any = None,
    explicit_response_port: bool = False,
    instrument: bool = True,
) -> Any:
    """Make a method callable on meshes of the actor.

    What it raises is raised at the caller, as an `ActorError` that is also of the original type:

    * An `Exception` ends the call; the actor lives on. An `ExceptionGroup` can be taken apart by
      ``except*``. Where nobody waits for an answer (`broadcast`), or the endpoint had to answer by
      a port, there is nobody to tell: the actor dies, and its owner is told.
    * ``asyncio.CancelledError`` ends the call, too; at the caller it is an `ActorError` and no
      cancellation.
    * ``StopIteration`` ends the call; the `ActorError` is no ``StopIteration``, which would end a
      loop of the caller. In an async endpoint Python makes a `RuntimeError` of it.
    * ``SystemExit``, ``KeyboardInterrupt`` and what else is no `Exception` end the actor, not its
      process: the caller gets a `SupervisionError`, and so do later calls.

    A result that cannot be sent is an error of the call as well; it names what cannot be sent and
    where in the result it sits. Arguments are copied, always; those that cannot be unpickled cost
    the call, not the actor. An endpoint that waits for a call which waits for the same actor gets a
    `CycleError`.

    Args:
        method: The method, sync or async.
        propagate: For tensor engines; has no effect on calls.
        explicit_response_port: The method takes a `Port` after ``self`` and answers by it, now or
            later; what it returns is ignored.
        instrument: Open a tracing span around each call.

    Raises:
        TypeError: It is not a function.
    """
    if method is None:
        return partial(
            endpoint,
            propagate=propagate,
            explicit_response_port=explicit_response_port,
            instrument=instrument,
        )
    _check_function(method, "endpoint")
    return EndpointProperty(
        method,
        propagate=propagate,
        explicit_response_port=explicit_response_port,
        instrument=instrument,
    )


def concurrent_endpoint(
    method: Callable[..., Any] | None = None,
    *,
    propagate: Any = None,
    explicit_response_port: bool = False,
    instrument: bool = True,
) -> Any:
    """Make an async method an endpoint whose calls interleave.

    Calls start in order; while one awaits, others go on. When the actor ends, those that still run
    are cancelled, and awaited before ``__cleanup__``. What it raises is treated as by `endpoint`,
    but for what is no `Exception`: the caller gets that in an `ActorError`, and the actor dies.

    Raises:
        ValueError: The method is not async, or is an endpoint already.
    """
    if method is None:
        return partial(
            concurrent_endpoint,
            propagate=propagate,
            explicit_response_port=explicit_response_port,
            instrument=instrument,
        )
    if isinstance(method, EndpointProperty):
        raise ValueError(  # noqa: TRY004  # compatible
            "concurrent_endpoint does not wrap @endpoint; pass endpoint options to "
            "concurrent_endpoint itself"
        )
    _check_function(method, "concurrent_endpoint")
    if not is_async_method(method):
        raise ValueError("concurrent_endpoint can only wrap async endpoints")
    return EndpointProperty(
        method,
        propagate=propagate,
        explicit_response_port=explicit_response_port,
        instrument=instrument,
        concurrent=True,
    )


def _check_function(method: Any, decorator: str) -> None:
    if isinstance(method, EndpointProperty):
        raise TypeError(f"@{decorator} marks a method; {method.__name__} is an endpoint already")
    if not callable(method) or isinstance(method, staticmethod | classmethod):
        raise TypeError(
            f"@{decorator} marks a method; got {method!r}. Put it directly above `def`: static "
            "methods, class methods and properties cannot be endpoints."
        )
