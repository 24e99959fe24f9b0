"""A link on one host: frames in both directions over one connected Unix socket.

The thread that sends writes to the socket itself, as long as the socket takes it. What it does
not take is queued, and the driving thread writes it when there is room. A sender that finds more
than the queue's limit waits: back-pressure, never loss. The driving thread itself never waits.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._net.descriptors import received, rights
from danaus._net.link import Link, OnFrame, OnLost, Part
from danaus._net.poller import IN, OUT
from danaus._wire.frame import (
    FLAG_HANDOVER,
    FLAG_SHARED,
    Frame,
    FrameDecoder,
    FrameError,
    encode_head,
    encode_small,
)

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor
    from danaus._net.shared import SharedPayload

__all__ = ["LocalLink"]

_READ = 256 * 1024
"""Bytes taken from the socket at a time."""

_BATCH = 256
"""Buffers of queued frames that are written together; the kernel takes 1024 at a time."""

_MAX_BUFFERS = 1000
"""Buffers in one write; the kernel's limit is 1024."""

_ANCILLARY = socket.CMSG_SPACE(64 * 4)
"""Room for as many descriptors as one read can bring (several small frames, one each)."""

_NONBLOCK = int(socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0))
_FLAGS = (_NONBLOCK,)
_NO_FDS: list[int] = []
_CLOEXEC = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_TRUNCATED = int(socket.MSG_CTRUNC)  # plain ints: an enum's `&` costs as much as a small message


class LocalLink(Link):
    """Frames over one connected stream socket; see `Link`."""

    def __init__(
        self,
        sock: socket.socket,
        reactor: Reactor,
        on_frame: OnFrame,
        on_lost: OnLost,
        peer: str = "",
        *,
        may_wait: bool = True,
    ) -> None:
        sock.setblocking(False)  # noqa: FBT003  # it takes no keyword
        self._sock = sock
        self._fd = sock.fileno()
        self._reactor = reactor
        self._on_frame = on_frame
        self._on_lost = on_lost
        self.peer = peer
        self.context: Any = None
        self._may_wait = may_wait
        self._lock = threading.Lock()
        self._queue: deque[tuple[Sequence[Part], Sequence[int]]] = deque()
        self._queued = 0
        self._awaits_room = False
        """True while the driving thread is to be told of room to write."""
        self._outgoing: tuple[Sequence[Part], Sequence[int]] | None = None
        """The frame that a sender is writing now."""
        self._sent = -1
        """How much of it the socket took; -1 while it was not asked yet."""
        self._unfinished: tuple[Sequence[Part], Sequence[int]] | None = None
        """What is left of it, on its way to the queue."""
        self._drained: threading.Condition | None = None
        self._decoder = FrameDecoder()
        self._fds: deque[int] = deque()
        self._buffer = bytearray(_READ)
        self._view = memoryview(self._buffer)
        self.lost = False
        self._reading = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.frames_in = 0
        self.frames_out = 0
        reactor.register(self._fd, self, IN)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._fd

    @property
    def queued(self) -> int:
        """Bytes that were sent and that the socket has not taken yet."""
        return self._queued

    # sending

    def send_small(self, kind: int, routing: bytes, body: bytes) -> bool:
        """Send a frame with one small part. Returns False when the connection has ended."""
        data = encode_small(kind, routing, body)
        with self._lock:
            if self.lost:
                return False
            if self._outgoing is not None:
                self._settle()
            self.frames_out += 1
            self.bytes_out += len(data)
            if self._queue:
                self._enqueue(([data], []))
            else:
                # `for` stores the count in the instruction after the call: no signal handler can
                # raise between the two, and `_settle` can finish what was begun.
                self._outgoing, self._sent = ((data,), _NO_FDS), -1
                try:
                    for self._sent in map(self._sock.send, (data,), _FLAGS):  # noqa: B020
                        pass
                except BlockingIOError:
                    self._sent = 0
                except OSError:
                    return self._broken()
                if self._sent == len(data):
                    self._outgoing = None
                    return True
                self._settle()
        return self._wait_for_room()

    def send(
        self,
        kind: int,
        routing: bytes,
        payload: SharedPayload,
        handover: int = -1,
    ) -> bool:
        """Send any frame; its descriptors are duplicated, the caller keeps its own.

        Returns False when the connection has ended.
        """
        flags = 0
        fds: list[int] = []
        if payload.fd >= 0:
            flags |= FLAG_SHARED
            fds.append(payload.fd)
        if handover >= 0:
            flags |= FLAG_HANDOVER
            fds.append(handover)
        head = encode_head(kind, flags, routing, payload.lengths)
        return self.send_buffers([head, *payload.inline], fds)

    def forward(self, frame: Frame, fds: Sequence[int]) -> bool:
        """Send a received frame on as it is. The caller keeps the descriptors."""
        head = encode_head(frame.kind, frame.flags, frame.routing, frame.lengths)
        return self.send_buffers([head, *(p for p in frame.parts if p is not None)], fds)

    def send_buffers(self, buffers: Sequence[Part], fds: Sequence[int]) -> bool:
        """Send the bytes of one frame."""
        size = sum(map(len, buffers))
        with self._lock:
            if self.lost:
                return False
            if self._outgoing is not None:
                self._settle()
            self.frames_out += 1
            self.bytes_out += size
            if self._queue:
                self._enqueue(_kept(buffers, fds))
            else:
                self._outgoing, self._sent = (buffers, fds), -1
                ancillary = rights(fds)
                first = buffers[:_MAX_BUFFERS]
                try:
                    call = map(self._sock.sendmsg, (first,), (ancillary,), _FLAGS)
                    for self._sent in call:
                        pass
                except BlockingIOError:
                    self._sent = 0
                except OSError:
                    return self._broken()
                if self._sent == size:
                    self._outgoing = None
                    return True
                self._settle()
        return self._wait_for_room()

    def _settle(self) -> None:
        """Queue what is left of the frame that a sender has begun; also after an interrupt of it.

        Every step may be interrupted by a signal handler that raises, and is then done again by
        the next sender.
        """
        outgoing = self._outgoing
        if outgoing is None:
            return
        if self._sent >= 0:
            entry = self._unfinished
            if entry is None:
                buffers, fds = outgoing
                rest = _after(buffers, self._sent)
                entry = self._unfinished = _kept(rest, fds if self._sent == 0 else [])
            if entry[0] and not (self._queue and self._queue[-1] is entry):
                self._enqueue(entry)
        self._outgoing = None
        self._unfinished = None

    def _write(self, buffers: Sequence[Part], fds: Sequence[int]) -> int:
        return self._sock.sendmsg(buffers[:_MAX_BUFFERS], rights(fds), _NONBLOCK)

    def _enqueue(self, entry: tuple[Sequence[Part], Sequence[int]]) -> None:
        self._queued += sum(map(len, entry[0]))
        self._queue.append(entry)
        if not self._awaits_room:
            self._watch(room=True)

    def _watch(self, *, room: bool) -> None:
        """Have the driving thread told of what can be read, and of room to write if wanted."""
        self._reactor.modify(self._fd, IN | OUT if room else IN)
        self._awaits_room = room

    def _broken(self) -> bool:
        self._outgoing = None
        # The driving thread will see the end of the connection and tell everybody.
        return False

    def _wait_for_room(self) -> bool:
        limit = _config.get("send_queue_bytes")
        if self._queued <= limit or not self._may_wait or not self._reactor.may_drive():
            return True
        with self._lock:
            if self._drained is None:
                self._drained = threading.Condition(self._lock)
            while self._queued > limit and not self.lost:
                self._drained.wait(1.0)
        return not self.lost

    def flush(self, timeout: float) -> bool:
        """Wait until the queue is written, at most ``timeout`` seconds. False: it is not."""
        deadline = time.monotonic() + timeout
        with self._lock:
            if self._drained is None:
                self._drained = threading.Condition(self._lock)
            while self._queue and not self.lost:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._drained.wait(left)
        return True

    def _drain(self) -> None:
        with self._lock:
            while self._queue:
                buffers, fds = self._take_batch()
                try:
                    sent = self._write(buffers, fds)
                except OSError as error:
                    self._queue.appendleft((buffers, fds))
                    if not isinstance(error, BlockingIOError):
                        # The read side reports the end; until then there is nothing to write.
                        self._watch(room=False)
                    return
                for fd in fds:
                    os.close(fd)
                self._queued -= sent
                rest = _after(buffers, sent)
                if rest:
                    self._queue.appendleft((rest, []))
                    return
            self._watch(room=False)
            if self._drained is not None:
                self._drained.notify_all()

    def _take_batch(self) -> tuple[list[Part], Sequence[int]]:
        """Take frames off the queue that can be written together."""
        buffers, fds = self._queue.popleft()
        batch = list(buffers)
        while not fds and self._queue and len(batch) < _BATCH:
            following, their_fds = self._queue[0]
            if their_fds:
                break
            batch.extend(following)
            self._queue.popleft()
        return batch, fds

    # receiving

    def on_ready(self, mask: int) -> None:
        """The socket is readable, writable, or ended."""
        if mask & OUT:
            self._drain()
        if mask & ~OUT and not self.lost:
            self._read()

    def finish(self) -> None:
        """Take what the peer wrote before it ended, then end the link; ``on_lost`` may be called.

        The news of a death may come by another link, and sooner than its last words. They are
        lost where another thread drives; only an agent that is gone too is noticed elsewhere.
        """
        if self._reactor.is_driver() and not self._reading:
            seen = -1
            while not self.lost and seen != self.bytes_in:
                seen = self.bytes_in
                self._read()
        self.close()

    def _read(self) -> None:
        self._reading = True
        try:
            self._read_once()
        finally:
            self._reading = False

    def _read_once(self) -> None:
        try:
            count, ancillary, flags, _ = self._sock.recvmsg_into(
                [self._buffer], _ANCILLARY, _CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(str(error))
            return
        if ancillary:
            self._fds.extend(received(ancillary))
        if flags & _TRUNCATED:
            self._end(
                "no file descriptor was left for what the peer sent; raise the limit (ulimit -n)"
            )
            return
        if count == 0:
            self._end("the peer closed the connection")
            return
        self.bytes_in += count
        try:
            self._give(self._decoder.feed(self._view[:count]))
        except FrameError as error:
            self._end(f"the peer sent what is no frame: {error}")

    def _give(self, frames: list[Frame]) -> None:
        for frame in frames:
            self.frames_in += 1
            fds = self._descriptors(frame.descriptors) if frame.flags else []
            try:
                self._on_frame(self, frame, fds)
            except Exception as error:
                # It is not known what was done of it: the stream is of no more use.
                self._end(f"a frame of the peer could not be handled: {error!r}")
                raise
        if self._fds and not self._decoder.pending:
            raise FrameError("descriptors come with it that belong to no frame")

    def _descriptors(self, count: int) -> list[int]:
        """Those that accompany the next frame."""
        if len(self._fds) < count:
            raise FrameError(f"{count} descriptors are missing")
        return [self._fds.popleft() for _ in range(count)]

    # ending

    def _end(self, why: str) -> None:
        if self.lost:
            return
        self._release()
        self._on_lost(self, why)

    def _release(self) -> None:
        with self._lock:
            self.lost = True
            self._reactor.unregister(self._fd)
            self._sock.close()
            for _, fds in self._queue:
                for fd in fds:
                    os.close(fd)
            self._queue.clear()
            self._queued = 0
            if self._drained is not None:
                self._drained.notify_all()
        while self._fds:
            os.close(self._fds.popleft())

    def abandon(self) -> None:
        """In a forked child: let go of the connection, which is the parent's."""
        self.lost = True
        descriptor = self._sock.detach()
        if descriptor >= 0:
            os.close(descriptor)

    def close(self) -> None:
        """End the link from this side; ``on_lost`` is not called."""
        if not self.lost:
            self._release()


def _kept(buffers: Sequence[Part], fds: Sequence[int]) -> tuple[list[Part], list[int]]:
    """An entry of the queue: views of the caller's memory must not outlive the call."""
    kept: list[Part] = [bytes(part) if isinstance(part, memoryview) else part for part in buffers]
    return kept, [os.dup(fd) for fd in fds]


def _after(buffers: Sequence[Part], sent: int) -> list[Part]:
    """What is left of ``buffers`` after the first ``sent`` bytes."""
    rest: list[Part] = []
    for part in buffers:
        if sent >= len(part):
            sent -= len(part)
        else:
            rest.append(memoryview(part)[sent:] if sent else part)
            sent = 0
    return rest
