"""Spare hosts: they stand by, and take the place of hosts of a mesh that die."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from danaus._runtime.process import runtime

__all__ = ["Host", "Spares", "answers"]

Host = tuple[str, str]
"""(name, address of its agent)."""


def answers(address: str) -> bool:
    """Whether a host is known to be there right now, and to work together with this process."""
    routes = runtime().routes
    link = routes.agents.get(address)
    return link is not None and link.connected and address in routes.welcomes


class Spares:
    """Hosts that stand by for those of a mesh.

    Args:
        hosts: The hosts of the mesh by rank; a spare that takes a place is put into this list.
        waiting: The spares, in the order in which they are used.
    """

    def __init__(self, hosts: list[Host], waiting: Sequence[Host] = ()) -> None:
        self._hosts = hosts
        self._waiting = list(waiting)
        self._instead: dict[str, Host] = {}
        self._lock = threading.Lock()
        self.any = bool(waiting)
        """Whether there ever was one."""

    @property
    def waiting(self) -> list[Host]:
        """Spares that have taken no place yet, whether they answer or not."""
        with self._lock:
            return list(self._waiting)

    def now(self, host: Host) -> Host:
        """The host that has a host's place now: itself, or the spare that took it."""
        with self._lock:
            return self._now(host)

    def _now(self, host: Host) -> Host:
        while host[1] in self._instead:
            host = self._instead[host[1]]
        return host

    def replace(self, host: Host) -> Host | None:
        """Give the place of a host that is gone to the first spare that answers, for good.

        Returns:
            The spare; also one that took the place before. None where no spare answers.
        """
        with self._lock:
            now = self._now(host)
            if now != host:
                return now
            for spare in self._waiting:
                if answers(spare[1]):
                    self._waiting.remove(spare)
                    self._instead[host[1]] = spare
                    self._hosts[:] = [spare if one == host else one for one in self._hosts]
                    return spare
        return None

    def greet(self) -> None:
        """Connect to all that wait, those again that were lost."""
        for _, address in self.waiting:
            runtime().routes.agent(address)
