"""Messages to ports that do not arrive: the actors that sent them are asked what to do.

A message to a process that is known to be dead, or whose connection is broken, bounces at once. One
that is the first to its process goes into a connection which the process may never take over; so
those are noted until the process says that it has, and bounce when it turns out to be dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from danaus._runtime.call import UndeliverableMessageEnvelope
from danaus._runtime.context import current
from danaus.errors import MeshFailure

if TYPE_CHECKING:
    from danaus._runtime.router import Runtime

__all__ = ["Bounces"]

_MOST = 1000
"""Messages noted for one process; of more, the first are told of."""


class Bounces:
    """The part of a runtime that knows of messages which did not arrive."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._unconfirmed: dict[str, list[tuple[str, str]]] = {}
        """(sending actor, target) of messages, by processes that have not been heard of yet."""

    def sent(self, proc: str, target: str) -> None:
        """The running actor has sent a message to a port of ``proc``."""
        link = self._runtime.routes.links.get(proc)
        if link is not None and not link.frames_in:
            noted = self._unconfirmed.setdefault(proc, [])
            if len(noted) < _MOST:
                noted.append((_sender(), target))

    def heard_of(self, proc: str) -> None:
        """``proc`` has taken over its connection, and what was sent by it."""
        self._unconfirmed.pop(proc, None)

    def died(self, proc: str) -> None:
        """``proc`` is dead: what it has not taken over did not arrive."""
        for sender, target in self._unconfirmed.pop(proc, ()):
            self._bounce(sender, proc, target)

    def refused(self, proc: str, target: str) -> None:
        """The running actor has tried to send a message to a port of ``proc``, which is dead."""
        self._bounce(_sender(), proc, target)

    def _bounce(self, sender: str, proc: str, target: str) -> None:
        runtime = self._runtime
        report = runtime.routes.dead.get(proc) or {}
        why = f"the process is gone: {report.get('text') or 'nobody answers for it'}"
        cell = runtime.cells.get(sender)
        on_unhandled = runtime.faults.on_unhandled
        if cell is not None:
            address = f"{runtime.id}.{sender}"
            cell.post_first(UndeliverableMessageEnvelope(address, target, why))
        elif not report.get("stopping") and on_unhandled is not None:
            text = f"a message of the client to {target} could not be delivered: {why}"
            on_unhandled(MeshFailure("root", [0], text, host=runtime.host))


def _sender() -> str:
    context = current.get()
    return context.actor_instance.uid if context is not None else ""
