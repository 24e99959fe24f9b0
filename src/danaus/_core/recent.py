"""A memory that forgets: what is known of things that have ended, in bounded room."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Recent"]

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """A dict that drops its oldest entries beyond ``limit``.

    For processes, actors and meshes that are gone: late messages to them must be answered, but a
    program that starts and stops a million of them must not grow.

    Example:
        >>> recent: Recent[str, int] = Recent(2)
        >>> recent["a"], recent["b"], recent["c"] = 1, 2, 3
        >>> list(recent)
        ['b', 'c']
    """

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._limit:
            oldest = next(iter(self))
            super().pop(oldest, None)
