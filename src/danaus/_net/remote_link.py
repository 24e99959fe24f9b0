"""A link between hosts: frames over TLS that outlive the connection that carries them.

The side that dialled dials again when a connection breaks; the other waits for it. The `Session`
machine numbers what is sent, keeps it until the peer has it, and says what must be sent again. The
number of a frame does not travel: frames follow each other on a connection, and the hello at its
beginning says where it starts. Acknowledgements travel before a frame that goes out anyway, or
alone after a while.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic as _now
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._core import session_events as events
from danaus._core.session import Session
from danaus._net.dialling import Dialling
from danaus._net.link import Link, OnFrame, OnLost, Part
from danaus._net.poller import OUT
from danaus._net.send_queue import SendQueue
from danaus._net.shared import received_parts
from danaus._net.tcp import Ending
from danaus._net.tls import TlsConnection
from danaus._wire import kinds
from danaus._wire.frame import (
    FLAG_HANDOVER,
    Frame,
    FrameDecoder,
    FrameError,
    encode_head,
    encode_small,
)

if TYPE_CHECKING:
    import socket

    from danaus._net.job_key import JobKey
    from danaus._net.reactor import Reactor
    from danaus._net.shared import SharedPayload

__all__ = ["RemoteLink"]

_READ, _READS = 16 * 1024, 64
"""Bytes that are read at a time, what TLS gives at most; reads after which others have a turn."""

_GOODBYE = 5.0  # seconds in which a peer can read why it is not let in
_CLOSED = "the peer closed the connection"
_NO_HANDOVER = "a connection cannot be handed over to another host"

_decode = msgspec.msgpack.Decoder().decode


class RemoteLink(Link):
    """One link between two processes on different hosts; made by `dial` or `accept`."""

    is_local = False

    def __init__(
        self,
        reactor: Reactor,
        key: JobKey,
        on_frame: OnFrame,
        on_lost: OnLost,
        peer: str,
        *,
        may_wait: bool,
    ) -> None:
        self.peer = peer
        self.context: Any = None
        self.lost = False
        self.bytes_in = self.bytes_out = self.frames_in = self.frames_out = 0
        self.on_drop: Callable[[RemoteLink], None] | None = None
        """Called when a connection has ended that the peer must make again."""
        self.outlasts = False  # whether it waits longer for the peer to dial than that tries to
        self._reactor = reactor
        self._key = key
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._may_wait = may_wait
        limits = events.SessionLimits(resume_within=_config.get("link_resume_within"))
        self._session = Session(peer, os.urandom(8).hex(), _now(), limits)
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._connection: TlsConnection | None = None
        self._connections: set[TlsConnection] = set()
        """This one, those that are being made, and those that were replaced."""
        self._numbers = 0
        self._out = SendQueue()
        self._decoder = FrameDecoder()
        self._view = memoryview(bytearray(_READ))
        self._tick_at = inf  # when `_tick` is called next
        self._reading = False
        self._last_word: bytes | None = None  # instead of a hello, to a peer that gets no more
        self._dialling: Dialling | None = None
        """Of the side that dials."""

    # making it

    @classmethod
    def dial(  # noqa: PLR0913  # what a link needs
        cls,
        address: str,
        wish: list[Any],
        reactor: Reactor,
        on_frame: OnFrame,
        on_lost: OnLost,
        peer: str,
        *,
        may_wait: bool = True,
    ) -> RemoteLink:
        """A link to ``tcp://HOST:PORT``, which can be written to at once.

        The link adds its own name to ``wish``; see `Link` for the callbacks.

        Raises:
            JobKeyError: No key is known for that host.
        """
        name = os.urandom(8).hex()
        dialling = Dialling(address, [*wish, name])
        link = cls(reactor, dialling.key, on_frame, on_lost, peer, may_wait=may_wait)
        link._dialling = dialling
        link._dial()
        return link

    @classmethod
    def accept(  # noqa: PLR0913  # what a link needs
        cls,
        sock: socket.socket,
        key: JobKey,
        reactor: Reactor,
        on_frame: OnFrame,
        on_lost: OnLost,
        peer: str,
        *,
        may_wait: bool = True,
    ) -> RemoteLink:
        """A link that a peer has dialled; its preface was read."""
        link = cls(reactor, key, on_frame, on_lost, peer, may_wait=may_wait)
        link.resume(sock)
        return link

    def dismiss(self, kind: int, routing: bytes) -> None:
        """Tell the peer one thing in place of a hello, and let it close the connection."""
        self._last_word = encode_small(kind, routing, b"")
        self._reactor.call_later(_GOODBYE, self.close)

    def resume(self, sock: socket.socket) -> None:
        """The peer has dialled again for this link."""
        self._new_connection().accept(sock)
        self._tick_later()

    def _new_connection(self) -> TlsConnection:
        self._numbers += 1
        made = TlsConnection(self._numbers, self._reactor, self._key, self)
        self._connections.add(made)
        return made

    def _dial(self) -> None:
        if self._dialling is not None and not self.lost:
            self._dialling.begin(self._new_connection())

    # the owner of connections

    def opened(self, connection: TlsConnection) -> None:
        """A connection holds: say hello."""
        with self._lock:
            if self.lost:
                connection.close()
                return
            old, self._connection = self._connection, connection
            self._decoder = FrameDecoder()
            self._out.clear()
            if self._last_word is not None:
                self._out.put((self._last_word,))
                self._pump()
                return
            event = events.Connected(connection=connection.number)
            self._carry_out(self._session.handle(event, _now()))
            self._pump()
        if old is not None:
            self._connections.discard(old)
            old.close()
        self._tick_later()

    def ended(self, connection: TlsConnection, how: Ending, why: str) -> None:
        """A connection is over."""
        self._connections.discard(connection)
        with self._lock:
            if self.lost:
                return
            if self._connection is connection:
                self._connection = None
                self._out.clear()
                # The kernel of a peer that has ended says so in good order; a reset says nothing.
                soon = why == _CLOSED and not self.outlasts
                more: float = 0.0 if soon else _config.get("host_dead_after")
                event = events.Disconnected(connection=connection.number, reason=why, longer=more)
                self._session.handle(event, _now())
                if self._dialling is not None:
                    self._dialling.lost()
            elif self._connection is not None:
                return  # another one holds
        if self._dialling is not None:
            after = self._dialling.after(connection, how, why)
            if isinstance(after, str):
                self._end(after)
            else:
                self._reactor.call_later(after, self._dial)
        else:
            self._tick_later()
            if self.on_drop is not None:
                self.on_drop(self)

    def ready(self, connection: TlsConnection, mask: int) -> None:
        """The connection can be read or written."""
        if mask & OUT:
            with self._lock:
                if connection is self._connection:
                    self._pump()
        if mask & ~OUT:
            self._read(connection)

    # sending

    @property
    def connected(self) -> bool:
        """Whether the peer is connected right now; a session outlives its connections."""
        return self._connection is not None and not self.lost

    @property
    def queued(self) -> int:
        """Bytes that were sent and that the socket has not taken yet."""
        return self._out.nbytes

    def send_small(self, kind: int, routing: bytes, body: bytes) -> bool:
        """Send a frame with one small part. Returns False when there is no way to the peer."""
        data = encode_small(kind, routing, body)
        return self._send((data,), len(data))

    def send(self, kind: int, routing: bytes, payload: SharedPayload, handover: int = -1) -> bool:
        """Send any frame; descriptors stay on this host.

        Returns False when there is no way to the peer.

        Raises:
            ValueError: A descriptor is to be handed over to another host.
        """
        if handover >= 0:
            raise ValueError(_NO_HANDOVER)
        return self._send_parts(kind, routing, payload.whole())

    def forward(self, frame: Frame, fds: Sequence[int]) -> bool:
        """Send a received frame on. The caller keeps the descriptors."""
        if frame.flags & FLAG_HANDOVER:
            raise ValueError(_NO_HANDOVER)
        return self._send_parts(frame.kind, frame.routing, received_parts(frame, fds))

    def _send_parts(self, kind: int, routing: bytes, parts: Sequence[Part]) -> bool:
        lengths = [len(part) for part in parts]
        head = encode_head(kind, 0, routing, lengths)
        return self._send((head, *parts), len(head) + sum(lengths))

    def _send(self, buffers: Sequence[Part], size: int) -> bool:
        """Number a frame, keep it, and write it if there is a connection."""
        with self._lock:
            if self.lost:
                return False
            self.frames_out += 1
            self.bytes_out += size
            if self._session.push(buffers, size):
                told = self._session.tell()
                if told:
                    self._out.put_frame(kinds.LINK_ACK, told)
                self._out.put(buffers)
                if not self._out.awaits_room:
                    self._pump()
            full = self._session.paused or self._out.nbytes > _config.get("send_queue_bytes")
        return self._wait_for_room() if full else True

    def _pump(self) -> None:
        """Write what the connection takes. The lock is held."""
        connection = self._connection
        if connection is None:
            return
        try:
            if self._out.pump(connection):
                self._room.notify_all()
        except BaseException as error:
            why = str(error) if isinstance(error, OSError) else "interrupted"
            self._reactor.call_soon(lambda: connection.fail(Ending.LOST, why))
            if not isinstance(error, OSError):
                raise  # a signal handler has raised, and it is not known what was written

    def _wait_for_room(self) -> bool:
        if not self._may_wait or not self._reactor.may_drive():
            return True
        limit = _config.get("send_queue_bytes")
        with self._lock:
            while (self._session.paused or self._out.nbytes > limit) and not self.lost:
                self._room.wait(1.0)
        return not self.lost

    def flush(self, timeout: float) -> bool:
        """Wait until the peer has all that was sent, at most ``timeout`` seconds."""
        deadline = _now() + timeout
        with self._lock:
            while not self._session.idle and not self.lost:
                left = deadline - _now()
                if left <= 0:
                    return False
                self._room.wait(min(left, 0.05))
        return True

    # receiving

    def _read(self, connection: TlsConnection) -> None:
        self._reading = True
        try:
            self._read_some(connection)
        finally:
            self._reading = False

    def _read_some(self, connection: TlsConnection) -> None:
        for _ in range(_READS):
            with self._lock:
                if connection is not self._connection:
                    return
                frames, more, why = self._receive(connection)
            for frame in frames:
                self._give(frame)
            if why:
                connection.fail(Ending.LOST, why)
            if not more:
                return
        if not self.lost and connection is self._connection:
            self._reactor.call_soon(lambda: self._read(connection))

    def _receive(self, connection: TlsConnection) -> tuple[list[Frame], bool, str]:
        """Read once: frames for the owner, whether to go on, and why the connection is over."""
        try:
            count = connection.receive(self._view)
        except OSError as error:
            return [], False, str(error)
        if count < 0:
            return [], False, ""
        if count == 0:
            # Where writing has failed just now, the kernel has told of the reset already.
            return [], False, "it broke" if self._out.nbytes else _CLOSED
        self.bytes_in += count
        try:
            return self._take(self._decoder.feed(self._view[:count])), True, ""
        except (FrameError, ValueError, msgspec.DecodeError) as error:  # and would again
            reason = f"the peer sent what is no frame: {error}"
            self._reactor.call_soon(lambda: self._end(reason))
            return [], False, ""

    def _take(self, frames: list[Frame]) -> list[Frame]:
        """Do what the link's own frames say; return the others. The lock is held."""
        session = self._session
        given: list[Frame] = []
        due = False
        now = _now()
        for frame in frames:
            kind = frame.kind
            if kind == kinds.LINK_ACK:
                if session.acknowledged(_decode(frame.routing)[0]):
                    self._room.notify_all()
            elif kind == kinds.LINK_HELLO:
                self._on_hello(_decode(frame.routing), now)
            else:
                given.append(frame)
                if kind != kinds.LINK_BYE and session.state == "open":
                    size = 24 + len(frame.routing) + sum(frame.lengths)
                    due = session.take(size, now) or due
        if session.idle:
            self._room.notify_all()
        if due:
            self._out.put_frame(kinds.LINK_ACK, session.tell())
            self._pump()
        elif session.deadline is not None:
            self._tick_later()
        return given

    def _on_hello(self, hello: list[Any], now: float) -> None:
        incarnation, expected, received = hello
        connection = self._connection
        if connection is None:
            return
        if self._dialling is not None:
            self._dialling.held()
        commands = self._session.handle(
            events.HelloReceived(
                connection=connection.number,
                incarnation=incarnation,
                expected=expected,
                received=received,
            ),
            now,
        )
        self._carry_out(commands)
        self._pump()

    def _give(self, frame: Frame) -> None:
        if frame.kind == kinds.LINK_BYE:
            self._end(f"the peer closed the link: {_decode(frame.routing)[0]}")
            return
        self.frames_in += 1
        try:
            self._on_frame(self, frame, [])
        except Exception as error:
            # It is not known what was done of it: the stream is of no more use.
            self._end(f"a frame of the peer could not be handled: {error!r}")
            raise

    # the session

    def _carry_out(self, commands: list[events.SessionCommand]) -> None:
        """Do what the machine says. The lock is held."""
        for command in commands:
            match command:
                case events.SendHello():
                    hello = (command.incarnation, command.expected, command.received)
                    self._out.put_frame(kinds.LINK_HELLO, *hello)
                case events.SendFrame():
                    self._out.put(command.payload)  # type: ignore[arg-type]
                case events.SendAck():
                    self._out.put_frame(kinds.LINK_ACK, command.ack)
                case events.SessionEnded():
                    reason = command.reason
                    self._reactor.call_soon(lambda reason=reason: self._end(reason))
                case _:
                    continue  # connections are closed, and senders woken, where that is seen

    def _tick_later(self) -> None:
        """Have `_tick` called when the session is due."""
        deadline = self._session.deadline
        if deadline is None or deadline >= self._tick_at:
            return
        self._tick_at = deadline
        self._reactor.call_later(max(0.0, deadline - _now()), self._tick)

    def _tick(self) -> None:
        self._tick_at = inf
        if self._dialling is not None and self._session.state != "open":
            return  # a side that dials decides by itself when it gives up
        with self._lock:
            if not self.lost:
                self._carry_out(self._session.handle(events.Tick(), _now()))
                self._pump()
        self._tick_later()

    # the end

    def _end(self, why: str) -> None:
        if self._release(why):
            self._on_lost(self, why)

    def _release(self, why: str) -> bool:
        with self._lock:
            if self.lost:
                return False
            self.lost = True
            self._connection = None
            self._session.handle(events.CloseRequested(reason=why), _now())
            self._out.clear()
            self._room.notify_all()
        for connection in list(self._connections):
            connection.close()
        self._connections.clear()
        return True

    def finish(self) -> None:
        """Take what the peer wrote before it ended, then end the link."""
        connection = self._connection
        if connection is not None and self._reactor.is_driver() and not self._reading:
            self._read(connection)
        self.close()

    def close(self) -> None:
        """End the link from this side; ``on_lost`` is not called."""
        with self._lock:
            connection = self._connection
            if not self.lost and connection is not None:
                self._out.put_frame(kinds.LINK_BYE, "it is done")
                self._pump()
        self._release("closed from this side")

    def abandon(self) -> None:
        """In a forked child: let go of the connection, which is the parent's."""
        self.lost = True
        if self._connection is not None:
            self._connection.abandon()
