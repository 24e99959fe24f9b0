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
from danaus.errors import MeshFailure, SerializationError, SupervisionError, actor_error, shorten

__all__ = [
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
    pickled: list[Any] | None = None
    try:
        parts = dumps(error)
        again = loads(parts)
        if type(again).__name__ == type(error).__name__:
            pickled = [bytes(part) for part in parts]
    except BaseException:  # noqa: BLE001  # a foreign class with a will of its own
        pickled = None
    try:
        text = shorten(str(error))
    except BaseException:  # noqa: BLE001  # a foreign __str__
        text = "(its text cannot be shown)"
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return dumps((pickled, kind, text, format_remote(error), message))


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
