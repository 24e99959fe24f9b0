"""Which frames must be sent again after a connection broke?

A `Session` makes one reliable, ordered stream of frames out of a series of connections, each of
which may break at any moment with any suffix of its frames lost. Both sides run the same machine.
Frames are numbered from 1; the receiver acknowledges cumulatively, on its own frames where there
are any; the sender keeps what is not acknowledged. After a reconnect each side says in its `Hello`
which incarnation it is, whom it expects, and which frame it received last; the other sends the
rest again, and what arrives twice is dropped by its number.

A session never skips: either every frame arrives once and in order, or the session ends on both
sides, because the peer restarted, forgot, or stayed away for too long. What was not acknowledged
comes back with `SessionEnded`: it may or may not have arrived.

States: *down* (no connection) -> *greeting* (our hello is out) -> *open* -> *down* again, and from
each of them to *ended*. Time is seen only in `handle`: call it with a `Tick` at `deadline`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import assert_never

from danaus._core.history import History
from danaus._core.session_events import (
    CloseConnection,
    CloseRequested,
    Connected,
    Deliver,
    Disconnected,
    FrameReceived,
    GoodbyeReceived,
    HelloReceived,
    PauseSending,
    ResumeSending,
    SendAck,
    SendFrame,
    SendGoodbye,
    SendHello,
    SendRequested,
    SessionCommand,
    SessionEnded,
    SessionEvent,
    SessionLimits,
    SessionStatistics,
    Tick,
)

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
    "Session",
    "SessionCommand",
    "SessionEnded",
    "SessionEvent",
    "SessionLimits",
    "SessionStatistics",
    "Tick",
]


@dataclass(slots=True)
class _Kept:
    """A frame that the peer has not acknowledged."""

    seq: int
    payload: object
    nbytes: int


class Session:
    """One side of a reliable session.

    Args:
        name: For error texts, such as ``'host-3'``.
        incarnation: Id of this side's session, unique for ever: a new one for each new `Session`.
        now: Seconds.
        limits: See `SessionLimits`.
    """

    def __init__(
        self, name: str, incarnation: str, now: float, limits: SessionLimits | None = None
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self._limits = limits or SessionLimits()
        self._peer = ""  # the peer's incarnation, once its first hello is here
        self._connection: int | None = None
        self._open = False  # the peer's hello of this connection is here
        self._since = now  # when the current state began
        self._ended: str | None = None  # why, once it is over
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0
        self._last_sent = 0
        self._paused = False
        self._received = 0  # last frame delivered
        # Seconds beyond the usual to be resumed in; at first a connection has yet to be made.
        self._longer = self._limits.hello_within
        self._told = 0  # last acknowledgement that we sent
        self._untold_bytes = 0  # received since then
        self._ack_at: float | None = None  # None if and only if no acknowledgement is owed
        self._resent = 0
        self._duplicates = 0
        self._connections = 0
        self._history = History(f"session {name!r}")

    def handle(self, event: SessionEvent, now: float) -> list[SessionCommand]:
        """Take one event at ``now`` (seconds); return what the driver must do, in order.

        Events of connections that have been replaced or closed are ignored, and so is everything
        after the end, but for `SendRequested`, whose payload comes back with another
        `SessionEnded`.
        """
        out: list[SessionCommand] = []
        match event:
            case FrameReceived():
                self._frame_received(event, now, out)
            case SendRequested():
                self._send_requested(event, now, out)
            case Tick():
                self._tick(now, out)
            case Connected():
                self._connected(event.connection, now, out)
            case Disconnected():
                self._disconnected(event, now)
            case HelloReceived():
                self._hello_received(event, now, out)
            case GoodbyeReceived():
                self._goodbye_received(event, now, out)
            case CloseRequested():
                self._close_requested(event.reason, now, out)
            case _:
                assert_never(event)
        return out

    @property
    def deadline(self) -> float | None:
        """When the next `Tick` is due, in seconds.

        None if and only if the session has ended, or owes nothing on an open connection.
        """
        if self._ended is not None:
            return None
        if self._open:
            return self._ack_at
        return self._since + self._patience

    @property
    def state(self) -> str:
        """``down``, ``greeting``, ``open`` or ``ended``."""
        if self._ended is not None:
            return "ended"
        if self._connection is None:
            return "down"
        return "open" if self._open else "greeting"

    @property
    def idle(self) -> bool:
        """Whether the peer has acknowledged everything that we sent."""
        return not self._kept

    @property
    def _patience(self) -> float:
        """Seconds that the current state may last, if it is not *open* or *ended*."""
        down = self._connection is None
        return self._limits.resume_within + self._longer if down else self._limits.hello_within

    def _connected(self, connection: int, now: float, out: list[SessionCommand]) -> None:
        self._history.record(now, "Connected", connection)
        if self._ended is not None:
            out.append(CloseConnection(connection=connection, reason=self._ended))
            return
        if self._connection is not None:
            out.append(CloseConnection(connection=self._connection, reason="replaced"))
        self._connection = connection
        self._connections += 1
        self._open = False
        self._since = now
        out.append(
            SendHello(
                connection=connection,
                incarnation=self.incarnation,
                expected=self._peer,
                received=self._received,
            )
        )
        self._note_told()

    def _disconnected(self, event: Disconnected, now: float) -> None:
        self._history.record(now, "Disconnected", event.connection, event.reason)
        if event.connection == self._connection:
            self._longer = max(self._longer, event.longer)
            self._fall(now)

    def _goodbye_received(
        self, event: GoodbyeReceived, now: float, out: list[SessionCommand]
    ) -> None:
        if event.connection == self._connection:
            self._end(f"closed by the peer: {event.reason}", now, out, orderly=True)

    def _hello_received(self, hello: HelloReceived, now: float, out: list[SessionCommand]) -> None:
        facts = (hello.connection, hello.incarnation, hello.expected, hello.received)
        self._history.record(now, "HelloReceived", *facts)
        if hello.connection != self._connection or self._open:
            return
        reason = self._mismatch(hello)
        if reason:
            self._end(reason, now, out)
            return
        self._peer = hello.incarnation
        self._open = True
        self._longer = 0.0
        self._acknowledged(hello.received, out)
        self._resent += len(self._kept)
        out.extend(self._frame(kept) for kept in self._kept)

    def _mismatch(self, hello: HelloReceived) -> str:
        """Say why the peer is not the one of this session; empty if it is."""
        if self._peer and hello.incarnation != self._peer:
            return f"the peer restarted (was {self._peer}, is {hello.incarnation})"
        if hello.expected and hello.expected != self.incarnation:
            return (
                f"the peer expects another session (ours {self.incarnation}, its {hello.expected})"
            )
        if hello.received > self._last_sent:
            return f"the peer has frame {hello.received}, but only {self._last_sent} were sent"
        if hello.received < self._last_sent - len(self._kept):
            return f"the peer forgot frames that it had acknowledged: its last is {hello.received}"
        return ""

    def _send_requested(
        self, request: SendRequested, now: float, out: list[SessionCommand]
    ) -> None:
        if self._ended is not None:
            out.append(
                SessionEnded(reason=self._ended, orderly=False, unacknowledged=(request.payload,))
            )
            return
        was_paused = self._paused
        goes_out = self.push(request.payload, request.nbytes)
        self._history.record(now, "SendRequested", self._last_sent, request.nbytes)
        if goes_out:
            out.append(self._frame(self._kept[-1]))
        if self._paused and not was_paused:
            out.append(PauseSending())

    def _frame_received(self, frame: FrameReceived, now: float, out: list[SessionCommand]) -> None:
        self._history.record(now, "FrameReceived", frame.seq, frame.ack, frame.nbytes)
        if frame.connection != self._connection:
            return
        if not self._open or frame.seq > self._received + 1:
            lost = "hello" if not self._open else f"frame {self._received + 1}"
            self._drop_connection(f"frame {frame.seq} arrived, but {lost} did not", now, out)
            return
        if frame.ack > self._last_sent:
            reason = f"the peer has frame {frame.ack}, but only {self._last_sent} were sent"
            self._end(reason, now, out)
            return
        self._acknowledged(frame.ack, out)
        if not frame.seq:
            return
        if frame.seq <= self._received:
            self._duplicates += 1
            due = self._owe_ack(now)
        else:
            due = self.take(frame.nbytes, now)
            out.append(Deliver(payload=frame.payload))
        if due:
            self._ack(out)

    def _owe_ack(self, now: float) -> bool:
        """Note that an acknowledgement is owed; whether it must not wait."""
        limits = self._limits
        late = self._received - self._told >= limits.ack_frames
        if late or self._untold_bytes >= limits.ack_bytes:
            return True
        if self._ack_at is None:
            self._ack_at = now + limits.ack_delay
        return False

    # The message path: what `handle` does for frames on an open connection, without the events.

    def push(self, payload: object, nbytes: int) -> bool:
        """Number a frame and keep it; whether it goes out now, on the open connection.

        Call it before the end only. `paused` says afterwards whether senders must wait.
        """
        self._last_sent += 1
        self._kept.append(_Kept(self._last_sent, payload, nbytes))
        self._kept_bytes += nbytes
        if not self._paused and self._fill() >= 1.0:
            self._paused = True
        return self._open

    def take(self, nbytes: int, now: float) -> bool:
        """The next frame arrived in order on the open connection, and is delivered.

        Returns:
            Whether an acknowledgement must go out at once.
        """
        self._received += 1
        self._untold_bytes += nbytes
        return self._owe_ack(now)

    def tell(self) -> int:
        """The acknowledgement that goes out now, alone or before a frame; 0 if none is owed."""
        if self._ack_at is None and self._received == self._told:
            return 0
        self._note_told()
        return self._received

    def acknowledged(self, ack: int) -> bool:
        """The peer has all frames up to this one.

        Returns:
            Whether senders that were paused may go on.

        Raises:
            ValueError: So many were never sent: the peer is not in its senses.
        """
        if ack > self._last_sent:
            raise ValueError(f"the peer has frame {ack}, but only {self._last_sent} were sent")
        return self._release(ack)

    @property
    def paused(self) -> bool:
        """Whether senders must wait: too much is unacknowledged."""
        return self._paused

    def _ack(self, out: list[SessionCommand]) -> None:
        assert self._connection is not None, "an acknowledgement is owed only on a connection"
        out.append(SendAck(connection=self._connection, ack=self._received))
        self._note_told()

    def _note_told(self) -> None:
        self._told = self._received
        self._untold_bytes = 0
        self._ack_at = None

    def _frame(self, kept: _Kept) -> SendFrame:
        assert self._connection is not None, "frames go out only on a connection"
        self._note_told()
        return SendFrame(
            connection=self._connection, seq=kept.seq, ack=self._received, payload=kept.payload
        )

    def _acknowledged(self, ack: int, out: list[SessionCommand]) -> None:
        if self._release(ack):
            out.append(ResumeSending())

    def _release(self, ack: int) -> bool:
        """Let go of the frames up to this one; whether paused senders may go on thereby."""
        kept = self._kept
        while kept and kept[0].seq <= ack:
            self._kept_bytes -= kept.popleft().nbytes
        if not self._paused or self._fill() > 0.5:  # noqa: PLR2004  # half: no flutter at the limit
            return False
        self._paused = False
        return True

    def _fill(self) -> float:
        """How full the store of unacknowledged frames is: 1.0 is full."""
        limits = self._limits
        return max(len(self._kept) / limits.max_frames, self._kept_bytes / limits.max_bytes)

    def _tick(self, now: float, out: list[SessionCommand]) -> None:
        deadline = self.deadline
        if deadline is None or now < deadline:
            return
        self._history.record(now, "Tick", self.state)
        if self._open:
            self._ack(out)
        elif self._connection is not None:
            self._drop_connection(f"no hello within {self._patience:g} s", now, out)
        else:
            self._end(f"not resumed within {self._patience:g} s", now, out)

    def _close_requested(self, reason: str, now: float, out: list[SessionCommand]) -> None:
        if self._open and self._connection is not None:
            out.append(SendGoodbye(connection=self._connection, reason=reason))
        self._end(f"closed: {reason}", now, out, orderly=True)

    def _drop_connection(self, reason: str, now: float, out: list[SessionCommand]) -> None:
        assert self._connection is not None, "there is no connection to drop"
        out.append(CloseConnection(connection=self._connection, reason=reason))
        self._fall(now)

    def _fall(self, now: float) -> None:
        """Go to *down*."""
        self._connection = None
        self._open = False
        self._since = now
        self._ack_at = None

    def _end(
        self, reason: str, now: float, out: list[SessionCommand], *, orderly: bool = False
    ) -> None:
        self._history.record(now, "ended", reason)
        if self._ended is not None:
            return
        if self._connection is not None:
            out.append(CloseConnection(connection=self._connection, reason=reason))
        self._fall(now)
        self._ended = reason
        unacknowledged = tuple(kept.payload for kept in self._kept)
        self._kept.clear()
        self._kept_bytes = 0
        out.append(SessionEnded(reason=reason, orderly=orderly, unacknowledged=unacknowledged))

    def statistics(self) -> SessionStatistics:
        """Return the counts; cheap."""
        return SessionStatistics(
            state=self.state,
            sent=self._last_sent,
            received=self._received,
            unacknowledged=len(self._kept),
            unacknowledged_bytes=self._kept_bytes,
            resent=self._resent,
            duplicates=self._duplicates,
            connections=self._connections,
        )

    def check(self) -> None:
        """Raise `InvariantBroken` if a rule of the machine does not hold."""
        require = self._history.require
        numbers = [kept.seq for kept in self._kept]
        first = self._last_sent - len(numbers) + 1
        ended = self._ended is not None
        require(
            ended or numbers == list(range(first, self._last_sent + 1)),
            f"kept frames are the last ones without a gap: {numbers} of {self._last_sent}",
        )
        total = sum(kept.nbytes for kept in self._kept)
        require(total == self._kept_bytes, f"kept bytes are counted: {self._kept_bytes}, {total}")
        require(not self._open or self._connection is not None, "open means connected")
        require(not ended or (self._connection is None and not numbers), "ended means empty")
        require(self._told <= self._received, "only what was received is acknowledged")
        require(self._open or self._ack_at is None, "acknowledgements are owed on open connections")
        require(
            ended or self._paused or self._fill() < 1.0, "a full session has paused its senders"
        )

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.state}>"
