"""Handing a cast to the procs of a host: the sender wrote its body once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from danaus._net.shared import SharedPayload, share
from danaus._wire import kinds
from danaus._wire.frame import Frame

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._proc.agent import Agent

__all__ = ["cast_out"]


def cast_out(
    agent: Agent, link: Link, frame: Frame, routing: Sequence[Any], fds: Sequence[int]
) -> None:
    """Hand the body of a cast to each proc with its own routing.

    Args:
        agent: Whose procs they are.
        link: Where the cast came from.
        frame: The cast.
        routing: Kind of the frames, and (proc, routing) of each.
        fds: Shared memory with the body, if it came so.
    """
    kind, entries = routing
    # What came from another host is put into shared memory here, once for all procs.
    body: Any = frame.parts
    payload = share(body) if not fds and len(entries) > 1 else None
    try:
        for target, own_routing in entries:
            receiver = agent.link_of(target)
            if receiver is None:
                agent.send(link, kinds.REFUSED, [target, agent.tombs.get(target)])
                continue
            record = agent.procs.get(target)
            if record is not None:
                record.watchers.add(link.peer)
            _forward(receiver, kind, own_routing, frame, fds, payload)
    finally:
        if payload is not None:
            payload.close()


def _forward(  # the parts of one frame
    receiver: Link,
    kind: int,
    routing: bytes,
    frame: Frame,
    fds: Sequence[int],
    payload: SharedPayload | None,
) -> None:
    if payload is not None and payload.fd >= 0:
        receiver.send(kind, routing, payload)
    else:
        receiver.forward(Frame(kind, frame.flags, routing, frame.parts, frame.lengths), fds)
