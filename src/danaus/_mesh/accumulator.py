"""Folding what a mesh of actors answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from danaus._wire.codec import dumps

if TYPE_CHECKING:
    from danaus._mesh.endpoint import Endpoint
    from danaus._runtime.future import Future

__all__ = ["Accumulator"]

A = TypeVar("A")
R = TypeVar("R")


class Accumulator(Generic[A, R]):
    """Folds the replies of all actors of a mesh.

    Args:
        endpoint: What is called.
        identity: What the fold starts with, and the result of a call on nobody.
        combine: Takes what was folded so far and a reply, by ascending ranks; called by who waits.
        reduce: Combines two replies into one, in any grouping: an associative and commutative
            function, such as `operator.add`, that refers to no large arrays. It is pickled and runs
            on the hosts, so that of many replies few come to the caller. Without it, all come.

    Raises:
        SerializationError: ``reduce`` cannot be pickled.
        ValueError: ``reduce`` refers to large buffers.

    Example:
        >>> Accumulator(mesh.loss, 0.0, operator.add).accumulate(batch).get()
        >>> Accumulator(mesh.gradient, 0.0, np.add, reduce=np.add).accumulate(batch).get()
    """

    def __init__(
        self,
        endpoint: Endpoint,
        identity: A,
        combine: Callable[[A, R], A],
        *,
        reduce: Callable[[R, R], R] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._identity = identity
        self._combine = combine
        self._reduce = _pickled(reduce)

    def accumulate(self, /, *args: Any, **kwargs: Any) -> Future[A]:
        """Call all; a future of the fold.

        Raises, from the future:
            ActorError: The exception of the lowest rank that raised one, or what combining raised.
            SupervisionError: One died, or was dead.
        """
        return self._endpoint.call_and_assemble(self._fold, self._reduce, args, kwargs)

    def _fold(self, values: list[R]) -> A:
        folded = self._identity
        for value in values:
            folded = self._combine(folded, value)
        return folded


def _pickled(function: Callable[..., Any] | None) -> bytes:
    if function is None:
        return b""
    parts = dumps(function)
    if len(parts) > 1:
        raise ValueError(
            f"reduce={function!r} refers to large buffers, and travels with each call; pass a "
            "plain function"
        )
    return bytes(parts[0])
