"""Casts in an agent: to its procs, on to other agents, and the replies back up."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._net.dial import open_link
from danaus._net.shared import received_parts, send_parts
from danaus._proc.tree import Tree
from danaus._proc.versions import versions
from danaus._wire import kinds
from danaus._wire.tree_frames import Batch, decode_batch, encode_batch
from danaus.errors import JobKeyError

if TYPE_CHECKING:
    from danaus._core.gather_events import Entry
    from danaus._net.link import Link
    from danaus._proc.agent import Agent
    from danaus._proc.group import Cast
    from danaus._wire.frame import Frame

__all__ = ["Casting"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Casting:
    """The ground of an agent's `Tree`.

    Args:
        agent: Whose procs get the casts.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._below: dict[str, Link] = {}
        """Links to other agents, by address."""
        self._name = f"{kinds.AGENT}{os.getpid()} {os.urandom(8).hex()}"
        self.tree = Tree(self)
        self._tokens = count()
        self._combined: dict[int, tuple[str, str, Batch]] = {}
        """(proc, host above, replies) that a proc is combining."""

    # what the tree stands on

    def link_down(self, host: str) -> Link | None:
        """The link to another agent, opened if need be; None where nobody is there."""
        link = self._below.get(host)
        if link is not None and not link.lost:
            return link
        agent = self._agent
        wish = [kinds.HELLO, self._name, os.getpid(), versions()]
        try:
            link = open_link(
                host, wish, agent.reactor, self._on_frame, self._on_lost, host, may_wait=False
            )
        except (JobKeyError, OSError):
            link = None  # to those above it is as if that host were dead
        if link is not None:
            self._below[host] = link
        return link

    def link_up(self, host: str) -> Link | None:
        """The link of a peer that casts to this host."""
        return self._agent.link_of(host)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call on the driving thread."""
        self._agent.reactor.call_later(seconds, call)

    def deliver(self, cast: Cast, members: list[tuple[int, str]]) -> None:
        """Hand a cast to procs of this host, with its own number each."""
        agent, head, payload = self._agent, cast.head, cast.payload
        for rank, proc in members:
            record = agent.procs.get(proc)
            if record is None or record.link is None:
                self.tree.proc_lost(proc)
                continue
            routing = _encode(
                (
                    proc,
                    head.actor,
                    head.root,
                    head.source_actor,
                    head.numbers.of(rank),
                    head.method,
                    head.port,
                    rank,
                    head.extent,
                )
            )
            record.link.send(kinds.CALL, routing, payload)

    def consume(self, cast: str, entries: Sequence[Entry], lost: Sequence[int]) -> None:
        """Not here: an agent sends no casts of its own."""

    def combine(self, host: str, batch: Batch, function: bytes) -> bool:
        """Let a proc of this host combine replies: an agent runs no code of users."""
        record = next((one for one in self._agent.procs.values() if one.ready), None)
        if record is None or record.link is None:
            return False
        token = next(self._tokens)
        self._combined[token] = (record.id, host, batch)
        routing, parts = encode_batch(batch)
        send_parts(record.link, kinds.COMBINE, _encode((token, routing, function)), parts)
        return True

    def on_frame(self, link: Link, frame: Frame, fds: Sequence[int]) -> None:
        """A frame of a host above, of a sending process, or of a proc that has combined."""
        if frame.kind == kinds.COMBINE:
            self._on_combined(frame, fds)
        else:
            self.tree.on_frame(link, frame, fds)

    def _on_combined(self, frame: Frame, fds: Sequence[int]) -> None:
        token, routing = _decode(frame.routing)
        asked = self._combined.pop(token, None)
        if asked is not None:
            self.tree.send_batch(asked[1], decode_batch(routing, received_parts(frame, fds)))

    def proc_lost(self, proc: str) -> None:
        """A process of this host has ended: what it has not combined goes up as it is."""
        for token, (asked, host, batch) in list(self._combined.items()):
            if asked == proc:
                del self._combined[token]
                self.tree.send_batch(host, batch)
        self.tree.proc_lost(proc)
        self.tree.host_lost(proc)

    def unreached(self, host: str) -> None:
        """Not here either."""

    # news

    def _on_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        """What another agent says to this one, which is its client."""
        try:
            if kinds.FIRST_OF_TREE <= frame.kind <= kinds.LAST_OF_TREE:
                self.tree.on_frame(link, frame, fds)
            elif frame.kind == kinds.REFUSED:
                self._on_lost(link, "it refuses this agent")
                link.close()
            elif frame.kind < kinds.FIRST_CONTROL:
                self._agent.on_passing_frame(link, frame, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _on_lost(self, link: Link, _why: str) -> None:
        if self._below.get(link.peer) is link:
            del self._below[link.peer]
            self.tree.host_lost(link.peer)

    def take_reply(self, routing: Sequence[Any], frame: Frame, fds: Sequence[int]) -> bool:
        """Take a reply of a proc of this host. False: it is none to a cast."""
        root, port, rank, status = routing
        if not self.tree.expects(root, port):
            return False
        self.tree.answer(root, port, rank, status, received_parts(frame, fds))
        return True

    def pass_up(self, frame: Frame, target: str, fds: Sequence[int]) -> bool:
        """Send on what is for a process that has cast to this host. False: it has not."""
        above = self.tree.way_up(target)
        if above is not None and frame.kind == kinds.REPLY:
            above.forward(frame, fds)
        return self.tree.has_cast(target)

    def close(self) -> None:
        """End the links to other agents."""
        for link in self._below.values():
            link.close()
