"""One host's place in the trees on which casts come down and replies go up.

The driver of a `CastRelay` and a `GatherNode`, the same in an agent and in a process that sends:
it turns frames into events and commands into frames. Whom the links lead to, who gets a cast here
and what becomes of replies at the root is the ground that it stands on (`Ground`).

A host is called by the peer of the link that leads to it: from above by the address of its agent,
from below by the id under which it introduced itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from danaus._core.cast import (
    Acknowledge,
    CastAcknowledged,
    CastArrived,
    CastCommand,
    CastRelay,
    ChildLost,
    ChildResumed,
    Deliver,
    Forward,
    HostLost,
)
from danaus._core.gather import GatherNode
from danaus._core.gather_events import (
    AcknowledgeBatch,
    Adopt,
    Adopted,
    BatchAcknowledged,
    BatchArrived,
    CloseGather,
    Emit,
    Entry,
    GatherClosed,
    GatherCommand,
    GatherEvent,
    GatherOpened,
    ProcLost,
    Tick,
)
from danaus._core.recent import Recent
from danaus._net.shared import SharedPayload, received_parts, received_payload, send_parts
from danaus._proc.group import Cast, Group, cast_name, root_of
from danaus._wire import kinds
from danaus._wire.tree_frames import Batch, Branch, CastHead, decode_batch, encode_batch

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._wire.frame import Frame

__all__ = ["Ground", "Tree"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_decode_head = msgspec.msgpack.Decoder(CastHead).decode
_decode_group = msgspec.msgpack.Decoder(tuple[str, str, Branch]).decode

_GROUPS = 4096
"""Groups that are remembered; one that was forgotten is asked for again."""

_TOGETHER = 0.05
"""Seconds that replies may wait for others that they can be combined with."""

_SOON = 0.02
"""Seconds that an acknowledgement may wait for others. Nobody waits for one; until it comes, what
it is for is kept."""

Parts = Sequence[Any]


class Ground(Protocol):
    """What a tree stands on in its process."""

    def link_down(self, host: str) -> Link | None:
        """The link to a host below, opened if need be; None where nobody is there."""
        ...

    def link_up(self, host: str) -> Link | None:
        """The link that a host above has made, if it is there."""
        ...

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call on the driving thread."""
        ...

    def deliver(self, cast: Cast, members: list[tuple[int, str]]) -> None:
        """Hand a cast to (rank, process) on this host."""
        ...

    def consume(self, cast: str, entries: Sequence[Entry], lost: Sequence[int]) -> None:
        """Take replies that have come to their root."""
        ...

    def combine(self, host: str, batch: Batch, function: bytes) -> bool:
        """Let a process of this host combine replies, then send them up. False: there is none."""
        ...

    def unreached(self, host: str) -> None:
        """A host below the root was lost before it had a cast."""
        ...


class Tree:
    """The casts and replies that pass through this process.

    Args:
        ground: What it stands on.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._relay = CastRelay("")
        self._node = GatherNode("")
        self._groups: Recent[str, Group] = Recent(_GROUPS)
        self._above: Recent[str, str] = Recent(_GROUPS)
        """The host from which a root's casts come, by root."""
        self._told: dict[str, set[str]] = {}
        """Groups that each host below knows."""
        self._lock = threading.RLock()
        self._todo: deque[Callable[[], None]] = deque()
        """Commands that are to be carried out, without the lock: sending may wait for room."""
        self._owed: dict[tuple[bool, str], tuple[list[str], dict[str, int]]] = {}
        """Acknowledgements that are to be sent soon, by (up?, host)."""
        self._combining: Recent[str, bytes] = Recent(_GROUPS)
        """Functions that combine replies, by cast."""
        self._tick_at: float | None = None

    # from here

    def cast(self, head: CastHead, group: Group, payload: SharedPayload) -> None:
        """Begin a cast at its root."""
        with self._lock:
            self._groups[group.id] = group
            self._arrive(None, Cast(head, group, payload))
        self._carry_out()

    def expects(self, root: str, port: int) -> bool:
        """Whether replies to a port of a process belong to a cast that came by here."""
        return self._node.knows(cast_name(root, port, 0))

    def answer(self, root: str, port: int, rank: int, status: int, parts: Parts) -> None:
        """Take the reply of a process of this host to a cast."""
        with self._lock:
            name = cast_name(root, port, 0)
            self._queue_gather(self._node.reply(name, rank, (status, parts), time.monotonic()))
        self._carry_out()

    def way_up(self, root: str) -> Link | None:
        """The link to the host through which a root's casts come."""
        above = self._above.get(root)
        return self._ground.link_up(above) if above is not None else None

    def has_cast(self, root: str) -> bool:
        """Whether a process has cast to this host from elsewhere."""
        return root in self._above

    def close(self, cast: str) -> None:
        """Nobody waits for the replies any more, here at the root."""
        if self._node.knows(cast):
            self._gather(GatherClosed(cast_id=cast, parent=None))

    def drop_group(self, group: str) -> None:
        """A group is not cast to any more, here at the root."""
        with self._lock:
            known = self._groups.pop(group, None)
            if known is not None:
                self._forget_below(known)
        self._carry_out()

    # news

    def proc_lost(self, proc: str) -> None:
        """A process of this host has ended."""
        self._gather(ProcLost(proc=proc))

    def host_lost(self, host: str) -> None:
        """There is no way to a host any more, above or below."""
        with self._lock:
            self._told.pop(host, None)
            now = time.monotonic()
            self._queue_casts(self._relay.handle(ChildLost(child=host), now))
            self._queue_gather(self._node.handle(ChildLost(child=host), now))
        self._carry_out()

    def on_frame(self, link: Link, frame: Frame, fds: Sequence[int]) -> None:
        """A frame of a neighbour in the tree. The caller keeps the descriptors."""
        peer, kind, routing = link.peer, frame.kind, frame.routing
        if kind == kinds.CAST:
            self._on_cast(link, _decode_head(routing), received_payload(frame, fds))
        elif kind == kinds.GATHER:
            self._on_batch(peer, decode_batch(routing, received_parts(frame, fds)))
        elif kind == kinds.TREE_ACK:
            self._on_acknowledged(peer, *_decode(routing))
        elif kind == kinds.GROUP:
            self._on_group(peer, *_decode_group(routing))
        elif kind == kinds.TREE_ADOPT:
            cast, depth = _decode(routing)
            self._gather(Adopted(cast_id=cast, parent=peer, depth=depth))
        elif kind == kinds.TREE_CLOSE:
            self._gather(GatherClosed(cast_id=_decode(routing)[0], parent=peer))
        elif kind == kinds.GROUP_WANTED:
            self._on_group_wanted(peer, _decode(routing)[0])
        elif kind == kinds.GROUP_END:
            self._on_group_end(_decode(routing)[0])
        elif kind == kinds.TREE_LOST:
            self._report_lost(*_decode(routing))

    def _on_group(self, above: str, name: str, root: str, branch: Branch) -> None:
        with self._lock:
            self._above[root] = above
            if name not in self._groups:
                self._groups[name] = Group(name, root, branch)

    def _on_group_end(self, name: str) -> None:
        with self._lock:
            group = self._groups.pop(name, None)
            if group is not None:
                self._forget_below(group)
        self._carry_out()

    def _forget_below(self, group: Group) -> None:
        for child in group.branch.below:
            told = self._told.get(child.host)
            if told is not None and group.id in told:
                told.discard(group.id)
                self._send_down(child.host, kinds.GROUP_END, [group.id])

    def _on_group_wanted(self, child: str, name: str) -> None:
        with self._lock:
            self._told.get(child, set[str]()).discard(name)
            self._queue_casts(self._relay.handle(ChildResumed(child=child), time.monotonic()))
        self._carry_out()

    def _on_cast(self, link: Link, head: CastHead, payload: SharedPayload) -> None:
        group = self._groups.get(head.group)
        if group is None:
            payload.close()
            link.send_small(kinds.GROUP_WANTED, _encode([head.group]), b"")
            return
        with self._lock:
            self._above[head.root] = link.peer
            self._arrive(link.peer, Cast(head, group, payload))
        self._carry_out()

    def _arrive(self, above: str | None, cast: Cast) -> None:
        head, group = cast.head, cast.group
        now = time.monotonic()
        here = group.here()
        if head.port >= 0:
            opened = GatherOpened(
                cast_id=head.cast,
                parent=above,
                depth=head.depth,
                subtree=group.relay,
                local=dict(here),
                remote=group.expected,
                flush_after=_TOGETHER if head.combine else None,
            )
            if head.combine:
                self._combining[head.cast] = head.combine
            self._queue_gather(self._node.handle(opened, now))
        arrived = CastArrived(
            cast_id=head.cast,
            parent=above,
            depth=head.depth,
            subtree=group.relay,
            dests=tuple(here),
            payload=cast,
            nbytes=cast.nbytes,
        )
        self._queue_casts(self._relay.handle(arrived, now))

    def _on_batch(self, child: str, batch: Batch) -> None:
        arrived = BatchArrived(
            cast_id=batch.cast,
            child=child,
            batch=batch.number,
            since=batch.since,
            entries=batch.entries,
            lost=batch.lost,
        )
        now = time.monotonic()
        with self._lock:
            self._queue_gather(self._node.handle(arrived, now))
            if batch.complete:  # all below the child have answered, so they have the cast
                event = CastAcknowledged(cast_id=batch.cast, child=child)
                self._queue_casts(self._relay.handle(event, now))
        self._carry_out()

    def _on_acknowledged(self, peer: str, casts: list[str], batches: dict[str, int]) -> None:
        now = time.monotonic()
        with self._lock:
            for cast in casts:
                event = CastAcknowledged(cast_id=cast, child=peer)
                self._queue_casts(self._relay.handle(event, now))
            for cast, number in batches.items():
                acknowledged = BatchAcknowledged(cast_id=cast, batch=number)
                self._queue_gather(self._node.handle(acknowledged, now))
        self._carry_out()

    # commands

    def _gather(self, event: GatherEvent) -> None:
        with self._lock:
            self._queue_gather(self._node.handle(event, time.monotonic()))
        self._carry_out()

    def _queue_casts(self, commands: list[CastCommand]) -> None:
        for command in commands:
            match command:
                case Deliver():
                    cast: Any = command.payload
                    members: Any = list(command.dests)
                    self._todo.append(lambda c=cast, m=members: self._ground.deliver(c, m))
                case Forward():
                    self._todo.append(lambda c=command: self._forward(c))
                case Acknowledge():
                    self._owe(up=True, host=command.parent)[0].append(command.cast_id)
                case HostLost():
                    root = root_of(command.cast_id)
                    self._todo.append(lambda r=root, h=command.host: self._report_lost(r, h))

    def _queue_gather(self, commands: list[GatherCommand]) -> None:
        for command in commands:
            match command:
                case Emit():
                    self._todo.append(lambda c=command: self._emit(c))
                case AcknowledgeBatch():
                    self._owe(up=False, host=command.child)[1][command.cast_id] = command.batch
                case Adopt():
                    self._todo.append(
                        lambda c=command: self._send_down(
                            c.child, kinds.TREE_ADOPT, [c.cast_id, c.depth]
                        )
                    )
                case CloseGather():
                    self._todo.append(
                        lambda c=command: self._send_down(c.child, kinds.TREE_CLOSE, [c.cast_id])
                    )

    def _carry_out(self) -> None:
        while True:
            try:
                command = self._todo.popleft()
            except IndexError:
                break
            command()
        due = self._node.deadline
        if due is not None and (self._tick_at is None or due < self._tick_at):
            self._tick_at = due
            self._ground.call_later(max(0.0, due - time.monotonic()), lambda: self._tick(due))

    def _tick(self, due: float) -> None:
        if self._tick_at == due:
            self._tick_at = None
        self._gather(Tick())

    def _forward(self, command: Forward) -> None:
        cast: Any = command.payload
        host = command.child
        link = self._link_down(host)
        if link is None:
            return
        group: Group = cast.group
        with self._lock:
            told = self._told.setdefault(host, set())
            news = group.id not in told
            told.add(group.id)
        if news:
            routing = _encode((group.id, group.root, group.below[host]))
            link.send_small(kinds.GROUP, routing, b"")
        head = msgspec.structs.replace(cast.head, depth=command.depth)
        link.send(kinds.CAST, _encode(head), cast.payload)

    def _link_down(self, host: str) -> Link | None:
        link = self._ground.link_down(host)
        if link is None:
            self.host_lost(host)
        return link

    def _send_down(self, host: str, kind: int, routing: list[Any]) -> None:
        link = self._link_down(host)
        if link is not None:
            link.send_small(kind, _encode(routing), b"")

    def _emit(self, command: Emit) -> None:
        if command.to is None:
            self._ground.consume(command.cast_id, command.entries, command.lost)
            return
        entries: Any = command.entries
        batch = Batch(
            command.cast_id,
            command.batch,
            command.since,
            command.complete,
            entries,
            command.lost,
        )
        owed = self._owed.get((True, command.to))
        if owed is not None and command.complete and command.cast_id in owed[0]:
            owed[0].remove(command.cast_id)  # the replies say as much
        function = self._combining.get(command.cast_id)
        if function and len(entries) > 1 and self._ground.combine(command.to, batch, function):
            return
        self.send_batch(command.to, batch)

    def send_batch(self, host: str, batch: Batch) -> None:
        """Send replies to the host above. If it is dead, whoever adopts this one gets them."""
        link = self._ground.link_up(host)
        if link is None:
            return
        send_parts(link, kinds.GATHER, *encode_batch(batch))

    def _report_lost(self, root: str, host: str) -> None:
        """Pass on, up to the root, that a host was lost before it had a cast."""
        above = self._above.get(root)
        if above is None:
            self._ground.unreached(host)
            return
        link = self._ground.link_up(above)
        if link is not None:
            link.send_small(kinds.TREE_LOST, _encode([root, host]), b"")

    # acknowledgements

    def _owe(self, *, up: bool, host: str) -> tuple[list[str], dict[str, int]]:
        owed = self._owed.get((up, host))
        if owed is None:
            owed = self._owed[up, host] = ([], {})
            self._ground.call_later(_SOON, lambda: self._pay(up=up, host=host))
        return owed

    def _pay(self, *, up: bool, host: str) -> None:
        with self._lock:
            owed = self._owed.pop((up, host), None)
        link = self._ground.link_up(host) if up else self._ground.link_down(host)
        if owed is not None and link is not None and any(owed):
            link.send_small(kinds.TREE_ACK, _encode(owed), b"")
