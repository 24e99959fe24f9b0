"""What an endpoint came to, as it travels: a value, an exception, or a death.

An exception travels as its own pickle inside the reply, beside its type's name, text and
traceback; one that cannot be pickled or rebuilt arrives as those alone. It is rebuilt once here,
before it is sent, to see whether it can be: the caller must never hang or fail over a class with
an unusual constructor.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from danaus._wire.codec import Parts, dumps, loads
from danaus.errors import (
    ActorError,
    MeshFailure,
    SerializationError,
    SupervisionError,
    actor_error,
    shorten,
)

__all__ = [
    "COVERED",
    "FAILED",
    "RAISED",
    "VALUE",
    "close_error",
    "close_failure",
    "format_remote",
    "is_cancellation",
    "open_error",
]

VALUE = 0
"""The parts are the pickled value."""
RAISED = 1
"""The parts are a closed exception (`close_error`)."""
FAILED = 2
"""The parts are a closed failure (`close_failure`): what was called is dead."""

COVERED = 3
"""The reply is part of that of a lower rank, with which it was combined."""

_OURS = ("/danaus/_runtime/", "/danaus/_wire/", "/cloudpickle/")
"""Where the frames lie that are none of the user's."""

_TEXT = 16_384
"""Longest traceback that travels, in characters."""


def format_remote(error: BaseException) -> str:
    """The traceback of ``error`` with its causes, without the runtime's own frames."""
    try:
        formatted = traceback.TracebackException.from_exception(error, compact=True)
        _strip(formatted, set())
        text = "".join(formatted.format())
    except Exception as failure:  # noqa: BLE001  # a __str__ that raises must not cost the report
        text = f"{type(error).__name__} (its traceback cannot be shown: {failure!r})\n"
    text = text.removeprefix("Traceback (most recent call last):\n")
    return shorten(text, _TEXT)


def _strip(formatted: traceback.TracebackException, seen: set[int]) -> None:
    if id(formatted) in seen:
        return
    seen.add(id(formatted))
    frames = [f for f in formatted.stack if not any(part in f.filename for part in _OURS)]
    unsendable = formatted.exc_type is SerializationError
    if frames or unsendable:
        formatted.stack = traceback.StackSummary.from_list(frames)
    if unsendable:
        # Its text says what could not be pickled, where, and why; how the pickler found out is
        # of no use to anybody.
        formatted.__cause__ = formatted.__context__ = None
    for other in (formatted.__cause__, formatted.__context__):
        if other is not None:
            _strip(other, seen)


def is_cancellation(error: BaseException) -> bool:
    """True for asyncio's CancelledError: it ends what was cancelled, here a call, not an actor."""
    exceptions = sys.modules.get("asyncio.exceptions")
    return exceptions is not None and isinstance(error, exceptions.CancelledError)


def close_error(error: BaseException, message: str) -> Parts:
    """The parts that carry ``error`` to the caller."""
    pickled = _pickle(error, type(error))
    if pickled is None:
        pickled = _pickle(_Bare(error), type(error))
    try:
        text = shorten(str(error))
    except BaseException:  # noqa: BLE001  # a foreign __str__
        text = "(its text cannot be shown)"
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return dumps((pickled, kind, text, format_remote(error), message))


def _pickle(value: Any, kind: type[BaseException]) -> list[bytes] | None:
    """The pickle of what becomes an exception of that kind; None when it becomes none."""
    try:
        parts = dumps(value)
        again = loads(parts)
        if type(again).__name__ == kind.__name__:
            return [bytes(part) for part in parts]
    except BaseException:  # noqa: BLE001  # a foreign class with a will of its own
        return None
    return None


class _Bare:
    """An exception without what cannot be pickled of it; it is rebuilt without its constructor.

    A constructor that takes other arguments than it hands on is the usual reason why an exception
    cannot be rebuilt from its own pickle. ``except`` at the caller asks for its type only.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> Any:
        error = self._error
        if isinstance(error, ActorError):  # of a call that the endpoint made
            return actor_error, (_Bare(error.exception), error.message, error.traceback_text)
        fields = {n: v for n, v in vars(error).items() if _can_travel(v)}
        arguments = tuple(a if _can_travel(a) else shorten(repr(a)) for a in error.args)
        return _rebuild, (type(error), arguments, fields)


def _can_travel(value: Any) -> bool:
    try:
        loads(dumps(value))
    except Exception:  # noqa: BLE001  # whatever a foreign class raises, it says no
        return False
    return True


def _rebuild(
    kind: type[BaseException], arguments: tuple[Any, ...], fields: dict[str, Any]
) -> BaseException:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(fields)
    return error


def close_failure(failure: MeshFailure) -> Parts:
    """The parts that carry a death to a caller."""
    return dumps(failure.to_dict())


def open_error(status: int, parts: Parts, endpoint: str) -> BaseException:
    """The exception that the caller gets for a reply that is no value."""
    if status == FAILED:
        return SupervisionError.for_call(endpoint, MeshFailure.from_dict(loads(parts)))
    pickled, kind, text, trace, message = loads(parts)
    error: BaseException | None = None
    if pickled is not None:
        try:
            error = loads(pickled)
        except BaseException:  # noqa: BLE001  # it could be rebuilt there, and cannot here
            error = None
    if not isinstance(error, BaseException):
        error = RuntimeError(f"{kind}: {text}")
    return actor_error(error, message, trace)
