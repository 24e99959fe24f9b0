"""What is a session told, and what does it tell its driver to do?

Events are facts, commands are orders; `danaus._core.session` holds the rules between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "CloseConnection",
    "CloseRequested",
    "Connected",
    "Deliver",
    "Disconnected",
    "FrameReceived",
    "GoodbyeReceived",
    "HelloReceived",
    "PauseSending",
    "ResumeSending",
    "SendAck",
    "SendFrame",
    "SendGoodbye",
    "SendHello",
    "SendRequested",
    "SessionCommand",
    "SessionEnded",
    "SessionEvent",
    "SessionLimits",
    "SessionStatistics",
    "Tick",
]

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """When a session pauses its senders, acknowledges, and gives up.

    The defaults are chosen, not measured: about a second of a busy link is kept, and an
    acknowledgement of its own costs less than 2 % of the frames.
    """

    max_frames: int = 4096
    """Unacknowledged frames at which senders are paused (count)."""
    max_bytes: int = 64 * MIB
    """Unacknowledged bytes at which senders are paused. One frame may exceed it."""
    ack_frames: int = 64
    """Received frames after which an acknowledgement does not wait any more (count)."""
    ack_bytes: int = MIB
    """Received bytes after which an acknowledgement does not wait any more."""
    ack_delay: float = 0.02
    """Seconds that an acknowledgement may wait for a frame to ride on."""
    hello_within: float = 10.0
    """Seconds that a connection may stay without the peer's hello."""
    resume_within: float = 30.0
    """Seconds without a connection after which the session is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The driver has a new, authenticated connection. It replaces an older one."""

    connection: int
    """The driver's number of the connection, never used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnected:
    """A connection is gone, for whatever reason."""

    connection: int
    reason: str
    longer: float = 0.0
    """Seconds beyond the usual that it may take to be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloReceived:
    """The peer's `SendHello` arrived."""

    connection: int
    incarnation: str
    """Which incarnation the peer is."""
    expected: str
    """Which incarnation the peer takes us for; empty if and only if it never heard of us."""
    received: int
    """Number of the last frame that the peer has of us, 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameReceived:
    """A frame, or with ``seq`` 0 an acknowledgement alone, arrived."""

    connection: int
    seq: int
    ack: int
    """Number of the last frame that the peer has of us."""
    payload: object = None
    nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodbyeReceived:
    """The peer closed the session on purpose."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequested:
    """Our side wants to send. Accepted in every state but *ended*, even while paused."""

    payload: object
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRequested:
    """Our side closes the session now; drain first (`Session.idle`) to lose nothing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: send it at `Session.deadline`, or whenever it is convenient."""


SessionEvent: TypeAlias = (
    Connected
    | Disconnected
    | HelloReceived
    | FrameReceived
    | GoodbyeReceived
    | SendRequested
    | CloseRequested
    | Tick
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHello:
    """Send this as the first thing on the connection."""

    connection: int
    incarnation: str
    expected: str
    received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFrame:
    """Send a frame on the connection."""

    connection: int
    seq: int
    ack: int
    payload: object


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAck:
    """Send an acknowledgement alone (a frame with ``seq`` 0 and no payload)."""

    connection: int
    ack: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendGoodbye:
    """Tell the peer that the session is over."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Hand a payload to our side: exactly once, in the order in which the peer sent."""

    payload: object


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSending:
    """Block our senders: too much is unacknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSending:
    """Unblock our senders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConnection:
    """Close the connection; nothing that still arrives on it matters."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """The session is over; to go on, make a new `Session` with a new incarnation."""

    reason: str
    orderly: bool
    """Whether one side closed it on purpose."""
    unacknowledged: tuple[object, ...]
    """Payloads of which we do not know whether they arrived, oldest first."""


SessionCommand: TypeAlias = (
    SendHello
    | SendFrame
    | SendAck
    | SendGoodbye
    | Deliver
    | PauseSending
    | ResumeSending
    | CloseConnection
    | SessionEnded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatistics:
    """What one session has done so far."""

    state: str
    """``down``, ``greeting``, ``open`` or ``ended``."""
    sent: int
    """Frames accepted from our side (count)."""
    received: int
    """Frames delivered to our side (count)."""
    unacknowledged: int
    """Frames kept now (count)."""
    unacknowledged_bytes: int
    resent: int
    """Frames sent again after a reconnect (count)."""
    duplicates: int
    """Frames dropped because they had been received (count)."""
    connections: int
    """Connections used so far (count)."""
