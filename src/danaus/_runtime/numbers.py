"""Which number does a message bear? Counted per (sending actor, receiving actor), from 0.

A cast to a whole mesh takes one number for all its receivers, so that it costs the same whatever
their number: what an actor has sent to everybody is counted once (`_Lane.usual`), and what it has
sent to some of them beside it per receiver.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from danaus._wire.tree_frames import Numbers

__all__ = ["Members", "MessageNumbers"]


class Members(Protocol):
    """Who receives a cast; equal groups are the same object."""

    @property
    def ranks(self) -> Mapping[str, int]:
        """Rank of each process."""
        ...


class _Lane:
    """Messages from one actor to one mesh of actors."""

    __slots__ = ("exceptions", "extra", "group", "usual")

    def __init__(self) -> None:
        self.group: Members | None = None
        """Whom `usual` counts for."""
        self.usual = 0
        self.extra: dict[str, int] = {}
        """By process: messages beside those that were for the whole group."""
        self.exceptions: list[tuple[int, int]] | None = None
        """(rank, extra) of members of the group; None when it must be looked up again."""

    def next(self, proc: str) -> int:
        extra = self.extra
        number = extra.get(proc, 0)
        extra[proc] = number + 1
        group = self.group
        if group is not None and proc in group.ranks:
            number += self.usual
            self.exceptions = None
        return number

    def next_of(self, group: Members) -> Numbers:
        if group is not self.group:
            mine = self.group
            if mine is not None and len(mine.ranks) > len(group.ranks):
                return Numbers.with_exceptions(
                    0, [(rank, self.next(proc)) for proc, rank in group.ranks.items()]
                )
            self._count_for(group)
        exceptions = self.exceptions
        if exceptions is None:
            extra, ranks = self.extra, group.ranks
            exceptions = self.exceptions = [
                (ranks[proc], more) for proc, more in extra.items() if more and proc in ranks
            ]
        usual = self.usual
        self.usual += 1
        return Numbers.with_exceptions(usual, [(rank, usual + more) for rank, more in exceptions])

    def _count_for(self, group: Members) -> None:
        if self.group is not None and self.usual:
            for proc in self.group.ranks:
                self.extra[proc] = self.extra.get(proc, 0) + self.usual
        extra = self.extra
        usual = min((extra.get(proc, 0) for proc in group.ranks), default=0)
        if usual:
            for proc in group.ranks:
                extra[proc] -= usual
        self.group, self.usual, self.exceptions = group, usual, None


class MessageNumbers:
    """Numbers of all messages that a process sends."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], _Lane] = {}
        """By receiving mesh of actors and sending actor."""
        self._sources: dict[str, list[str]] = {}
        """Who has sent to each mesh of actors."""
        self._lock = threading.Lock()

    def _begin(self, key: tuple[str, str]) -> _Lane:
        actor, source = key
        self._sources.setdefault(actor, []).append(source)
        lane = self._lanes[key] = _Lane()
        return lane

    def next(self, source: str, actor: str, proc: str) -> int:
        """Number of the next message from an actor to one of a mesh.

        Args:
            source: The sending actor.
            actor: The mesh of the receiving actor.
            proc: The process of the receiving actor.
        """
        key = (actor, source)
        with self._lock:
            lane = self._lanes.get(key)
            return (lane or self._begin(key)).next(proc)

    def next_of(self, source: str, actor: str, group: Members) -> Numbers:
        """Numbers of the next message from an actor to each of many of a mesh."""
        key = (actor, source)
        with self._lock:
            lane = self._lanes.get(key)
            return (lane or self._begin(key)).next_of(group)

    def forget_mesh(self, actor: str) -> None:
        """A mesh of actors has ended: nothing more is sent to it."""
        with self._lock:
            for source in self._sources.pop(actor, ()):
                self._lanes.pop((actor, source), None)

    def forget_proc(self, proc: str) -> None:
        """A process has ended: nothing more is sent to it."""
        with self._lock:
            for lane in self._lanes.values():
                if lane.extra.pop(proc, 0):
                    lane.exceptions = None
