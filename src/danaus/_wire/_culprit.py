"""Which part of a value cannot be pickled, and where it sits."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

__all__ = ["describe_failure"]

_DEPTH = 12
"""Steps into the value at most."""

_BUDGET = 500
"""Parts looked at before the search gives up."""

_TEXT = 300
"""Longest text of the original error, in characters."""

Attempt = Callable[[Any], BaseException | None]
"""Pickles a value; returns what that raised."""

Parts = Iterator[tuple[str, Any]]
"""What a value is made of, each with its place in it."""


def describe_failure(
    roots: Sequence[tuple[str, Any]], error: BaseException, attempt: Attempt
) -> str:
    """Say what could not be pickled, where it is, and why.

    Args:
        roots: What was to be pickled: for each value, what to call it ("argument 2"), or nothing.
        error: What pickling raised.
        attempt: Pickles a part alone; returns what that raised.
    """
    search = _Search(attempt, error)
    label, root = next((root for root in roots if not search.can(root[1])), roots[0])
    path, culprit = search.run(root)
    place, _, use = path.partition(", ")
    where = f" at {place.lstrip('.')}" if place else ""
    if label:
        where += f" of {label}" if place else f" as {label}"
    if use:
        where += f", {use}"
    why = str(search.error)[:_TEXT].rstrip(".")
    return (
        f"cannot send {_name(culprit)}{where}: {type(search.error).__name__}: {why}. "
        "Send plain data, or give its class a __reduce__ that says how to rebuild it."
    )


def _name(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, types.FunctionType | type):
        return f"{name} {value.__qualname__}"
    return f"a {name}"


class _Search:
    """Walks down to the smallest part that fails by itself."""

    def __init__(self, attempt: Attempt, error: BaseException) -> None:
        self._attempt = attempt
        self.error = error
        """What the pickling of the innermost part raised that is known to fail."""
        self._left = _BUDGET
        self._seen: set[int] = set()

    def can(self, value: Any) -> bool:
        """True when ``value`` alone can be pickled."""
        error = self._attempt(value)
        if error is not None:
            self.error = error
        return error is None

    def run(self, value: Any) -> tuple[str, Any]:
        """The path of the culprit inside ``value``, and itself."""
        path = ""
        for _ in range(_DEPTH):
            self._seen.add(id(value))
            found = self._failing(value)
            if found is None:
                break
            step, value = found
            path += step
        return path, value

    def _failing(self, value: Any) -> tuple[str, Any] | None:
        for step, part in _parts(value):
            self._left -= 1
            if self._left < 0:
                return None
            if id(part) not in self._seen and not self.can(part):
                return step, part
        return None


def _parts(value: Any) -> Parts:
    for kind, look in _LOOKS:
        if isinstance(value, kind):
            yield from look(value)
            return
    yield from _of_object(value)


def _of_dict(value: dict[Any, Any]) -> Parts:
    for key, part in value.items():
        yield f"[{key!r}]"[:80], part
    for key in value:
        yield f"[key {key!r}]"[:80], key


def _of_sequence(value: Iterable[Any]) -> Parts:
    for i, part in enumerate(value):
        yield f"[{i}]", part


def _of_class(value: type) -> Parts:
    for name, part in vars(value).items():
        yield f".{name}", inspect.unwrap(getattr(part, "__func__", part))


def _of_method(value: types.MethodType) -> Parts:
    yield ".__self__", value.__self__


def _of_function(function: types.FunctionType) -> Parts:
    code = function.__code__
    for name in code.co_names:
        if name in function.__globals__:
            yield f", where {code.co_name} uses the global {name!r}", function.__globals__[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            part = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        yield f", where {code.co_name} uses the variable {name!r}", part
    for part in function.__defaults__ or ():
        yield f", as a default of {code.co_name}", part


def _of_object(value: Any) -> Parts:
    try:
        reduced: Any = value.__reduce_ex__(5)
    except BaseException:  # noqa: BLE001  # it is the culprit itself
        return
    if not isinstance(reduced, tuple):
        return
    # (function, arguments, state, items, pairs, setter); those from the state on may be missing
    parts: list[Any] = [*reduced, None, None, None]
    for i, part in enumerate(parts[1]):
        if not isinstance(part, type):
            yield f".__reduce__[{i}]", part
    state = parts[2]
    halves: list[Any] = list(state) if isinstance(state, tuple) else [state]  # pyright: ignore[reportUnknownArgumentType]  # any state
    for half in halves:
        if isinstance(half, dict):
            yield from _of_fields(half)  # pyright: ignore[reportUnknownArgumentType]  # any state
        elif half is not None:
            yield ".__getstate__()", half


def _of_fields(fields: dict[str, Any]) -> Parts:
    for name, part in fields.items():
        yield f".{name}", part


_LOOKS: list[tuple[Any, Callable[[Any], Parts]]] = [
    (dict, _of_dict),
    ((list, tuple, set, frozenset), _of_sequence),
    (types.FunctionType, _of_function),
    (type, _of_class),
    (types.MethodType, _of_method),
]
"""How to look into a value, by its type; the first that fits."""
