"""Which part of a value cannot be pickled, and where it sits."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

__all__ = ["describe_failure"]

_DEPTH = 6
_BUDGET = 500
"""Parts looked at before the search gives up."""


def describe_failure(roots: Sequence[tuple[str, Any]], error: BaseException) -> str:
    """Say what could not be pickled, where it is, and why.

    Args:
        roots: What was to be pickled: for each value, what to call it ("argument 2"), or nothing.
        error: What pickling raised.
    """
    label, root = next((root for root in roots if not _can(root[1])), roots[0])
    path, culprit = _search(root, "", _DEPTH, [_BUDGET], set())
    where = f" at {path.lstrip('.')}" if path else ""
    if label:
        where += f" of {label}" if path else f" as {label}"
    return (
        f"cannot send a {type(culprit).__name__}{where}: {type(error).__name__}: {error}. "
        "Send plain data, or give its class a __reduce__ that says how to rebuild it."
    )


def _search(
    value: Any, path: str, depth: int, budget: list[int], seen: set[int]
) -> tuple[str, Any]:
    if depth and id(value) not in seen:
        seen.add(id(value))
        for step, part in _children(value):
            budget[0] -= 1
            if budget[0] < 0:
                break
            if id(part) not in seen and not _can(part):
                return _search(part, path + step, depth - 1, budget, seen)
    return path, value


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in cast("dict[Any, Any]", value).items():
            yield f"[{key!r}]", part
    elif isinstance(value, list | tuple | set | frozenset):
        for i, part in enumerate(cast("Iterable[Any]", value)):
            yield f"[{i}]", part
    else:
        for name, part in getattr(value, "__dict__", {}).items():
            yield f".{name}", part
        slots: Iterable[str] = getattr(type(cast("object", value)), "__slots__", ())
        for name in slots:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _can(value: Any) -> bool:
    import cloudpickle

    try:
        pickle.dumps(value, 5)
    except BaseException:  # noqa: BLE001  # any failure of a foreign class
        try:
            cloudpickle.dumps(value)
        except BaseException:  # noqa: BLE001
            return False
    return True
