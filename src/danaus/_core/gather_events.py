"""What is a gather node told, and what does it tell its driver to do?

Events are facts, commands are orders; `danaus._core.gather` holds the rules between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from danaus._core.cast import ChildLost, ChildResumed, Relay

__all__ = [
    "AcknowledgeBatch",
    "Adopt",
    "Adopted",
    "BatchAcknowledged",
    "BatchArrived",
    "CloseGather",
    "Emit",
    "Entry",
    "GatherClosed",
    "GatherCommand",
    "GatherEvent",
    "GatherOpened",
    "ProcLost",
    "ReplyArrived",
    "Tick",
]

Entry: TypeAlias = tuple[int, object]
"""A rank and its reply. The reply is opaque: a value or an exception, never looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOpened:
    """A cast that wants replies arrived here, for the first time or again from another parent."""

    cast_id: str
    parent: str | None
    """Host to which the replies go; None if they are consumed here, which cannot lose them."""
    depth: int
    """Distance of this host from the root of the plan, in hops, as in `CastArrived`."""
    subtree: Relay
    """This host and what is below it."""
    local: Mapping[int, str]
    """Each expected rank of this host, with the proc that answers for it."""
    remote: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """The expected ranks of each host below this one."""
    flush_after: float | None = None
    """Seconds that a reply may wait for others; None for the node's default, 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyArrived:
    """A proc of this host answered."""

    cast_id: str
    rank: int
    payload: object


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArrived:
    """A child sent what it had: its `Emit`."""

    cast_id: str
    child: str
    batch: int
    since: int
    entries: Sequence[Entry]
    lost: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAcknowledged:
    """The parent says that all batches up to this one are beyond loss."""

    cast_id: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcLost:
    """A proc of this host died; its open ranks will not answer."""

    proc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """An ancestor took over, because our parent died: the other side of `Adopt`."""

    cast_id: str
    parent: str
    depth: int
    """Distance of this host from the root of the plan from now on, in hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherClosed:
    """Nobody waits for the replies any more."""

    cast_id: str
    parent: str | None
    """Who says so; None for the consumer here. Only our parent is heeded: a host that is taken for
    dead, and is not, may still think that it is."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: send it at `GatherNode.deadline`, or whenever it is convenient."""


GatherEvent: TypeAlias = (
    GatherOpened
    | ReplyArrived
    | BatchArrived
    | BatchAcknowledged
    | ProcLost
    | ChildLost
    | ChildResumed
    | Adopted
    | GatherClosed
    | Tick
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """Send one frame of replies up, or hand it to the consumer here."""

    cast_id: str
    to: str | None
    """The parent; None if and only if the consumer is here."""
    batch: int
    """Number of the frame at this node, from 1; 0 if no acknowledgement is expected."""
    since: int
    """Number of the oldest frame that is not beyond loss: this one, or one before it."""
    entries: tuple[Entry, ...]
    """Ranks and replies, in order of arrival here."""
    lost: tuple[int, ...]
    """Ranks that died without a reply, ascending."""
    complete: bool
    """Whether every rank of this subtree is now answered or lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeBatch:
    """Tell a child that all its batches up to this one are beyond loss."""

    cast_id: str
    child: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Tell a host that we are its parent now; a host that cannot be reached is `ChildLost`."""

    cast_id: str
    child: str
    depth: int
    """The child's distance from the root, in hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseGather:
    """Tell a child that nobody waits any more."""

    cast_id: str
    child: str


GatherCommand: TypeAlias = Emit | AcknowledgeBatch | Adopt | CloseGather
