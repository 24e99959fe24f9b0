"""Handing a cast to the procs of a host: the sender wrote its body once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from danaus._net.shared import share
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
            receiver = agent.receiver_of(link, target)
            if receiver is None:
                continue
            if payload is not None and payload.fd >= 0:
                receiver.send(kind, own_routing, payload)
            else:
                one = Frame(kind, frame.flags, own_routing, frame.parts, frame.lengths)
                receiver.forward(one, fds)
    finally:
        if payload is not None:
            payload.close()
