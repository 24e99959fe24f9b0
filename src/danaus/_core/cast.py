"""Which host forwards a cast to whom, and who takes over when a relay dies?

A cast goes down a tree of hosts. The sender's side plans the tree (`plan_tree`) and each host's
agent runs one `CastRelay`: it hands the payload to its own procs and forwards it to its children,
with the part of the tree below each. On one host the same machine has no children.

Nothing is lost with a relay. A host acknowledges a cast only when its whole subtree has it; until
then its parent keeps the payload. When a child dies, the parent adopts the child's children and
sends to them again. What arrives twice at a host is answered, not delivered; what arrives twice
at a proc nevertheless (a host that has forgotten an old cast) is dropped by the proc's `Inbox`.

The driver's part: links deliver in order or report `ChildLost`; a host that cannot be reached is
reported as `ChildLost` too, once per `Forward` to it; a host that is taken for dead is made dead
(the owner of its agent fences it), so that all come to see the same; and for a cast that wants
replies `GatherOpened` goes to the `GatherNode` before `CastArrived` to the relay, every time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias, assert_never

from danaus._core.history import History
from danaus._core.recent import Recent

__all__ = [
    "Acknowledge",
    "CastAcknowledged",
    "CastArrived",
    "CastCommand",
    "CastEvent",
    "CastRelay",
    "CastStatistics",
    "ChildLost",
    "ChildResumed",
    "Deliver",
    "Forward",
    "HostLost",
    "Relay",
    "plan_tree",
]

FINISHED_LIMIT = 16384
"""Finished casts remembered per relay, to answer one that arrives again after its parent died:
some seconds of a busy relay. A forgotten one is delivered again, and dropped by the inboxes."""


class Relay(NamedTuple):
    """A host in the tree of a cast, and the hosts below it."""

    host: str
    children: tuple[Relay, ...] = ()

    def hosts(self) -> list[str]:
        """Return all hosts of this subtree, this one first, in the order of the plan."""
        found = [self.host]
        for child in self.children:
            found.extend(child.hosts())
        return found


def plan_tree(hosts: Sequence[str], fanout: int, *, root: str = "") -> Relay:
    """Plan a tree over ``hosts`` in which no host has more than ``fanout`` children.

    Neighbours in ``hosts`` stay neighbours: each subtree covers one contiguous part, so that ranks
    in row-major order stay together in the frames that travel up and down. Depth is
    ``O(log(len(hosts)) / log(fanout))``; all leaves are within one level of each other.

    Args:
        hosts: The destinations, each once, ``root`` not among them.
        fanout: Most children of a host (count, 2 or more).
        root: Host of the sender's side. It is the root of the tree and no destination of the plan.

    Raises:
        ValueError: ``fanout`` is below 2, or a host is named twice.

    Example:
        >>> [child.hosts() for child in plan_tree(["a", "b", "c", "d", "e"], 2).children]
        [['a', 'b'], ['c', 'd', 'e']]
    """
    if fanout < 2:  # noqa: PLR2004  # a chain as deep as the mesh is long is never wanted
        raise ValueError(f"plan_tree: fanout must be 2 or more; got {fanout}.")
    if len({root, *hosts}) != len(hosts) + 1:
        named = Counter((root, *hosts))
        twice = sorted(host for host, times in named.items() if times > 1)
        raise ValueError(f"plan_tree: each host may appear once; more than once: {twice[:8]}.")
    return Relay(root, _plan_children(hosts, fanout))


def _plan_children(hosts: Sequence[str], fanout: int) -> tuple[Relay, ...]:
    """Cut ``hosts`` into at most ``fanout`` parts of equal size (+-1), each led by its first."""
    parts = min(fanout, len(hosts))
    cuts = [len(hosts) * part // parts for part in range(parts + 1)] if parts else [0]
    return tuple(
        Relay(hosts[start], _plan_children(hosts[start + 1 : stop], fanout))
        for start, stop in pairwise(cuts)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CastArrived:
    """A cast arrived from above: from a parent, or from the local sender."""

    cast_id: str
    parent: str | None
    """Host that waits for our acknowledgement; None if and only if nobody does."""
    depth: int
    """Distance of this host from the root of the plan, in hops (0 is the root itself)."""
    subtree: Relay
    """This host and what is below it."""
    dests: tuple[object, ...]
    """The destinations in procs of this host, in the driver's terms; may be empty."""
    payload: object
    nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CastAcknowledged:
    """A child says that its whole subtree has the cast."""

    cast_id: str
    child: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLost:
    """A neighbour (child or parent, or both in different casts) died or is given up."""

    child: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResumed:
    """The link to a host was lost with frames on it and is there again: the host is alive."""

    child: str


CastEvent: TypeAlias = CastArrived | CastAcknowledged | ChildLost | ChildResumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Hand the payload to procs of this host."""

    cast_id: str
    dests: tuple[object, ...]
    payload: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Send the cast to another host."""

    cast_id: str
    child: str
    subtree: Relay
    """The child and what is below it."""
    depth: int
    """The child's distance from the root, in hops. It is one less than planned per dead relay."""
    payload: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Tell a parent that this host's whole subtree has the cast."""

    cast_id: str
    parent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLost:
    """A host died before its subtree had the cast; its own procs are gone with it."""

    cast_id: str
    host: str


CastCommand: TypeAlias = Deliver | Forward | Acknowledge | HostLost


class CastStatistics(NamedTuple):
    """What one relay has done so far."""

    in_flight: int
    """Casts that some child has not acknowledged now (count)."""
    kept_bytes: int
    """Bytes kept for them, as the driver stated them."""
    casts: int
    """Casts that arrived here, repetitions left out (count)."""
    repeated: int
    """Casts that arrived again (count)."""
    adopted: int
    """Children taken over from relays that died, once per cast (count)."""


class _Cast:
    """A cast that somebody below has not acknowledged."""

    __slots__ = ("depth", "nbytes", "parents", "payload", "waiting")

    def __init__(self, arrived: CastArrived) -> None:
        self.depth = arrived.depth
        self.payload = arrived.payload
        self.nbytes = arrived.nbytes
        # All that sent it: the messages of a dead parent and of the one that adopted us may
        # arrive in any order, and an acknowledgement to the dead one hurts nobody.
        self.parents: list[str] = [] if arrived.parent is None else [arrived.parent]
        self.waiting: dict[str, Relay] = {child.host: child for child in arrived.subtree.children}


class CastRelay:
    """The casts that pass through one host.

    Args:
        host: Name of this host, as it stands in the trees.
        remember: Finished casts to remember (count).
    """

    def __init__(self, host: str, *, remember: int = FINISHED_LIMIT) -> None:
        self.host = host
        self._casts: dict[str, _Cast] = {}
        self._finished: Recent[str, None] = Recent(remember)
        self._arrived = 0
        self._repeated = 0
        self._adopted = 0
        self._history = History(f"cast relay on {host!r}")

    def handle(self, event: CastEvent, now: float) -> list[CastCommand]:
        """Take one event at ``now`` (seconds); return what the driver must do, in order."""
        out: list[CastCommand] = []
        match event:
            case CastArrived():
                self._history.record(now, "CastArrived", event.cast_id, event.parent, event.nbytes)
                self._cast_arrived(event, out)
            case CastAcknowledged():
                self._history.record(now, "CastAcknowledged", event.cast_id, event.child)
                self._cast_acknowledged(event.cast_id, event.child, out)
            case ChildLost():
                self._history.record(now, "ChildLost", event.child)
                self._child_lost(event.child, out)
            case ChildResumed():
                self._history.record(now, "ChildResumed", event.child)
                self._child_resumed(event.child, out)
            case _:
                assert_never(event)
        return out

    def _cast_arrived(self, event: CastArrived, out: list[CastCommand]) -> None:
        cast = self._casts.get(event.cast_id)
        if cast is not None or event.cast_id in self._finished:
            self._repeated += 1
            if cast is None and event.parent is not None:
                out.append(Acknowledge(cast_id=event.cast_id, parent=event.parent))
            elif cast is not None:
                cast.depth = min(cast.depth, event.depth)
                if event.parent is not None and event.parent not in cast.parents:
                    cast.parents.append(event.parent)
            return
        self._arrived += 1
        if event.dests:
            out.append(Deliver(cast_id=event.cast_id, dests=event.dests, payload=event.payload))
        cast = _Cast(event)
        if not cast.waiting:
            self._finish(event.cast_id, cast, out)
            return
        self._casts[event.cast_id] = cast
        out.extend(self._forward(event.cast_id, cast, child) for child in cast.waiting.values())

    @staticmethod
    def _forward(cast_id: str, cast: _Cast, child: Relay) -> Forward:
        return Forward(
            cast_id=cast_id,
            child=child.host,
            subtree=child,
            depth=cast.depth + 1,
            payload=cast.payload,
        )

    def _cast_acknowledged(self, cast_id: str, child: str, out: list[CastCommand]) -> None:
        cast = self._casts.get(cast_id)
        if cast is None:
            return
        cast.waiting.pop(child, None)
        if not cast.waiting:
            del self._casts[cast_id]
            self._finish(cast_id, cast, out)

    def _finish(self, cast_id: str, cast: _Cast, out: list[CastCommand]) -> None:
        if not cast.parents:
            return  # the local sender does not send again
        out.extend(Acknowledge(cast_id=cast_id, parent=parent) for parent in cast.parents)
        self._finished[cast_id] = None

    def _child_lost(self, child: str, out: list[CastCommand]) -> None:
        concerned = [item for item in self._casts.items() if child in item[1].waiting]
        for cast_id, cast in concerned:
            lost = cast.waiting.pop(child)
            out.append(HostLost(cast_id=cast_id, host=child))
            self._adopted += len(lost.children)
            for orphan in lost.children:
                cast.waiting[orphan.host] = orphan
                out.append(self._forward(cast_id, cast, orphan))
            if not cast.waiting:
                del self._casts[cast_id]
                self._finish(cast_id, cast, out)

    def _child_resumed(self, child: str, out: list[CastCommand]) -> None:
        out.extend(
            self._forward(cast_id, cast, cast.waiting[child])
            for cast_id, cast in self._casts.items()
            if child in cast.waiting
        )

    def statistics(self) -> CastStatistics:
        """Return the counts. Cost: one pass over the casts in flight."""
        return CastStatistics(
            in_flight=len(self._casts),
            kept_bytes=sum(cast.nbytes for cast in self._casts.values()),
            casts=self._arrived,
            repeated=self._repeated,
            adopted=self._adopted,
        )

    def check(self) -> None:
        """Raise `InvariantBroken` if a rule of the machine does not hold."""
        require = self._history.require
        for cast_id, cast in self._casts.items():
            require(bool(cast.waiting), f"cast {cast_id} is kept only while a child owes an answer")
            require(cast_id not in self._finished, f"cast {cast_id} is not both kept and finished")
            require(self.host not in cast.waiting, f"cast {cast_id} does not wait for this host")

    def __repr__(self) -> str:
        return f"<CastRelay {self.host} {len(self._casts)} in flight>"
