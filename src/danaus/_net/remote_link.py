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
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._core.session import (
    CloseRequested,
    Connected,
    Disconnected,
    HelloReceived,
    SendAck,
    SendFrame,
    SendHello,
    Session,
    SessionCommand,
    SessionEnded,
    SessionLimits,
    Tick,
)
from danaus._net.keyring import keyring
from danaus._net.link import Link, OnFrame, OnLost, Part
from danaus._net.poller import OUT
from danaus._net.preface import encode_remote
from danaus._net.shared import take_parts
from danaus._net.tls import Ending, TlsConnection
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

_READ = 256 * 1024
"""Bytes that are read at a time; TLS gives at most 16 KiB a call."""

_READS = 64
"""Reads after which others get their turn."""

_JOINED = 16 * 1024
"""Bytes of small frames that are written together: one record of TLS."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds until a peer is dialled again, at first and at most."""

_HANG_UPS = 6
"""Connections that a peer may close before the first one holds; then it is not our peer."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class RemoteLink(Link):
    """One link between two processes on different hosts; see `Link`.

    Made by `dial` or `accept`.
    """

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
        self._reactor = reactor
        self._key = key
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._may_wait = may_wait
        self.incarnation = os.urandom(8).hex()
        """Id of this link at this side; where it dialled, the name of the link for both sides."""
        limits = SessionLimits(resume_within=_config.get("link_resume_within"), ack_delay=0.04)
        self._session = Session(peer, self.incarnation, time.monotonic(), limits)
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._connection: TlsConnection | None = None
        self._numbers = 0
        self._out: deque[Part] = deque()
        self._queued = 0
        self._awaits_room = False
        self._decoder = FrameDecoder()
        self._view = memoryview(bytearray(_READ))
        self._ticking = False
        # Of the side that dials:
        self._address = ""
        self._wish: list[Any] = []
        self._give_up_at = 0.0
        self._pause = _FIRST_PAUSE
        self._hang_ups = 0
        self._was_open = False

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

        Args:
            address: The agent's.
            wish: What the connection is for; the link adds its own name to it.
            reactor: Drives it.
            on_frame: See `Link`.
            on_lost: See `Link`.
            peer: Id of the process at the other end.
            may_wait: Whether senders wait when too much is queued.

        Raises:
            JobKeyError: No key is known for that host.
        """
        link = cls(reactor, keyring.key_for(address), on_frame, on_lost, peer, may_wait=may_wait)
        link._address = address
        link._wish = [*wish, link.incarnation]
        link._give_up_at = time.monotonic() + _config.get("host_dead_after")
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

    def resume(self, sock: socket.socket) -> None:
        """The peer has dialled again for this link."""
        self._new_connection().accept(sock)
        self._tick_later()

    def _new_connection(self) -> TlsConnection:
        self._numbers += 1
        return TlsConnection(self._numbers, self._reactor, self._key, self)

    def _dial(self) -> None:
        if self.lost:
            return
        connection = self._new_connection()
        preface = encode_remote(self._wish, self._key)
        gateway = keyring.gateway
        if gateway and gateway != self._address:
            key = keyring.key_for(gateway)
            preface = encode_remote([kinds.THROUGH, self._address], key) + preface
            connection.dial(gateway, preface)
        else:
            connection.dial(self._address, preface)

    # the owner of connections

    def opened(self, connection: TlsConnection) -> None:
        """A connection holds: say hello."""
        with self._lock:
            if self.lost:
                connection.close()
                return
            old, self._connection = self._connection, connection
            self._decoder = FrameDecoder()
            self._clear_out()
            self._carry_out(self._session.handle(Connected(connection=connection.number), _now()))
            self._pump()
        if old is not None:
            old.close()
        self._tick_later()

    def ended(self, connection: TlsConnection, how: Ending, why: str) -> None:
        """A connection is over."""
        with self._lock:
            if self.lost:
                return
            if self._connection is connection:
                self._connection = None
                self._clear_out()
                self._session.handle(Disconnected(connection=connection.number, reason=why), _now())
                self._give_up_at = _now() + _config.get("host_dead_after")
                self._pause = _FIRST_PAUSE
            elif self._connection is not None:
                return  # another one holds
            if not self._address:
                self._tick_later()
        if self._address:
            self._dial_again(connection, how, why)
        elif self.on_drop is not None:
            self.on_drop(self)

    def _dial_again(self, connection: TlsConnection, how: Ending, why: str) -> None:
        through = bool(keyring.gateway) and keyring.gateway != self._address
        if how is Ending.STRANGER or (how is Ending.ABSENT and not through):
            self._end(why)
            return
        if connection.is_connected and not self._was_open:
            self._hang_ups += 1
            if self._hang_ups >= _HANG_UPS:
                self._end(_hung_up(self._address, through=through))
                return
        if _now() > self._give_up_at:
            self._end(_unreachable(self._address, why))
            return
        pause, self._pause = self._pause, min(_LONGEST_PAUSE, 2 * self._pause)
        self._reactor.call_later(pause, self._dial)

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
    def queued(self) -> int:
        """Bytes that were sent and that the socket has not taken yet."""
        return self._queued

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
            raise ValueError("a connection cannot be handed over to another host")
        parts = payload.whole()
        lengths = [len(part) for part in parts]
        head = encode_head(kind, 0, routing, lengths)
        return self._send((head, *parts), len(head) + sum(lengths))

    def forward(self, frame: Frame, fds: Sequence[int]) -> bool:
        """Send a received frame on. The caller keeps the descriptors."""
        if frame.flags & FLAG_HANDOVER:
            raise ValueError("a connection cannot be handed over to another host")
        parts = take_parts(frame, os.dup(fds[0]) if fds else -1)
        lengths = [len(part) for part in parts]
        head = encode_head(frame.kind, 0, frame.routing, lengths)
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
                    self._put((_ack(told),))
                self._put(buffers)
                if not self._awaits_room:
                    self._pump()
            full = self._session.paused or self._queued > _config.get("send_queue_bytes")
        return self._wait_for_room() if full else True

    def _put(self, buffers: Sequence[Part]) -> None:
        for part in buffers:
            if len(part):
                self._out.append(part)
                self._queued += len(part)

    def _clear_out(self) -> None:
        self._out.clear()
        self._queued = 0
        self._awaits_room = False

    def _pump(self) -> None:
        """Write what the connection takes. The lock is held."""
        connection, out = self._connection, self._out
        if connection is None:
            return
        try:
            while out:
                data = out[0]
                if len(data) < _JOINED and len(out) > 1:
                    data = self._join()
                taken = connection.send(data)
                if not taken:
                    self._watch(connection, room=True)
                    return
                self._queued -= taken
                if taken == len(data):
                    out.popleft()
                else:
                    out[0] = memoryview(data)[taken:]
        except OSError as error:
            why = str(error)
            self._reactor.call_soon(lambda: connection.fail(Ending.LOST, why))
            return
        except BaseException:
            # A signal handler has raised between two steps: it is not known what was written.
            self._reactor.call_soon(lambda: connection.fail(Ending.LOST, "interrupted"))
            raise
        if self._awaits_room:
            self._watch(connection, room=False)
            self._room.notify_all()

    def _join(self) -> Part:
        """Put small buffers together; the result is the first of the queue."""
        out = self._out
        joined = [out.popleft()]
        size = len(joined[0])
        while out and size + len(out[0]) <= _JOINED:
            size += len(out[0])
            joined.append(out.popleft())
        data = b"".join(joined) if len(joined) > 1 else joined[0]
        out.appendleft(data)
        return data

    def _watch(self, connection: TlsConnection, *, room: bool) -> None:
        self._awaits_room = room
        connection.watch(room=room)

    def _wait_for_room(self) -> bool:
        if not self._may_wait or not self._reactor.may_drive():
            return True
        limit = _config.get("send_queue_bytes")
        with self._lock:
            while (self._session.paused or self._queued > limit) and not self.lost:
                self._room.wait(1.0)
        return not self.lost

    def flush(self, timeout: float) -> bool:
        """Wait until the peer has all that was sent, at most ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while not self._session.idle and not self.lost:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._room.wait(min(left, 0.05))
        return True

    # receiving

    def _read(self, connection: TlsConnection) -> None:
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
            return [], False, "the peer closed the connection"
        self.bytes_in += count
        try:
            return self._take(self._decoder.feed(self._view[:count])), True, ""
        except (FrameError, ValueError, msgspec.DecodeError) as error:
            # To connect again would bring the same.
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
            elif kind == kinds.LINK_BYE or session.state != "open":
                given.append(frame)
            else:
                size = 24 + len(frame.routing) + sum(frame.lengths)
                due = session.take(size, now) or due
                given.append(frame)
        if session.idle:
            self._room.notify_all()
        if due:
            self._put((_ack(session.tell()),))
            self._pump()
        elif session.deadline is not None:
            self._tick_later()
        return given

    def _on_hello(self, hello: list[Any], now: float) -> None:
        incarnation, expected, received = hello
        connection = self._connection
        if connection is None:
            return
        self._was_open = True
        commands = self._session.handle(
            HelloReceived(
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

    def _carry_out(self, commands: list[SessionCommand]) -> None:
        """Do what the machine says. The lock is held."""
        for command in commands:
            match command:
                case SendHello():
                    hello = (command.incarnation, command.expected, command.received)
                    self._put((encode_small(kinds.LINK_HELLO, _encode(hello), b""),))
                case SendFrame():
                    self._put(command.payload)  # type: ignore[arg-type]
                case SendAck():
                    self._put((_ack(command.ack),))
                case SessionEnded():
                    reason = command.reason
                    self._reactor.call_soon(lambda reason=reason: self._end(reason))
                case _:
                    continue  # connections are closed, and senders woken, where that is seen

    def _tick_later(self) -> None:
        """Have `_tick` called when the session is due."""
        deadline = self._session.deadline
        if deadline is None or self._ticking:
            return
        self._ticking = True
        self._reactor.call_later(max(0.0, deadline - _now()), self._tick)

    def _tick(self) -> None:
        self._ticking = False
        with self._lock:
            # A side that dials decides by itself when it gives up.
            if not self.lost and (not self._address or self._session.state == "open"):
                self._carry_out(self._session.handle(Tick(), _now()))
                self._pump()
        if not self._address or self._session.state == "open":
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
            connection, self._connection = self._connection, None
            self._session.handle(CloseRequested(reason=why), _now())
            self._clear_out()
            self._room.notify_all()
        if connection is not None:
            connection.close()
        return True

    def finish(self) -> None:
        """Take what the peer wrote before it ended, then end the link."""
        connection = self._connection
        if connection is not None and self._reactor.is_driver():
            self._read(connection)
        self.close()

    def close(self) -> None:
        """End the link from this side; ``on_lost`` is not called."""
        with self._lock:
            connection = self._connection
            if not self.lost and connection is not None:
                self._put((encode_small(kinds.LINK_BYE, _encode(["it is done"]), b""),))
                self._pump()
        self._release("closed from this side")

    def abandon(self) -> None:
        """In a forked child: let go of the connection, which is the parent's."""
        self.lost = True
        if self._connection is not None:
            self._connection.abandon()


def _now() -> float:
    return time.monotonic()


def _ack(received: int) -> bytes:
    return encode_small(kinds.LINK_ACK, _encode((received,)), b"")


def _unreachable(address: str, why: str) -> str:
    seconds = _config.get("host_dead_after")
    return (
        f"{address} cannot be reached from here: {why or 'it does not answer'}, for {seconds:g} s. "
        "Check that the host is up and on this network, that its worker runs, and that no firewall "
        "between here and there drops connections to that port"
    )


def _hung_up(address: str, *, through: bool) -> str:
    way = f" through {keyring.gateway}" if through else ""
    return (
        f"{address} closes every connection{way}: it has another job key, it is no Danaus worker, "
        "or its version differs. Start it and this client with the same key"
    )
