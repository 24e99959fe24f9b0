"""A link: frames in both directions over one connected Unix socket.

The thread that sends writes to the socket itself, as long as the socket takes it. What it does
not take is queued, and the driving thread writes it when there is room. A sender that finds more
than the queue's limit waits: back-pressure, never loss. The driving thread itself never waits.

Parts of `bulk_threshold` bytes and more travel as one piece of shared memory (a memfd), whose
descriptor accompanies the frame. Receivers map it copy-on-write.
"""

from __future__ import annotations

import array
import mmap
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._wire.codec import threshold
from danaus._wire.frame import (
    FLAG_HANDOVER,
    FLAG_SHARED,
    IN_SHARED,
    Frame,
    FrameDecoder,
    FrameError,
    encode_head,
    encode_small,
    shared_layout,
)

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor

__all__ = ["Link", "SharedPayload", "rights", "share", "take_parts"]

Part = bytes | bytearray | memoryview

_READ = 256 * 1024
"""Bytes taken from the socket at a time."""

_BATCH = 256
"""Buffers of queued frames that are written together; the kernel takes 1024 at a time."""

_MAX_BUFFERS = 1000
"""Buffers in one write; the kernel's limit is 1024."""

_ANCILLARY = socket.CMSG_SPACE(64 * 4)
"""Room for as many descriptors as one read can bring (several small frames, one each)."""

_IN = select.EPOLLIN
_OUT = select.EPOLLOUT
_NONBLOCK = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_FLAGS = (_NONBLOCK,)
_NO_FDS: list[int] = []
_CLOEXEC = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_TRUNCATED = int(socket.MSG_CTRUNC)  # plain ints: an enum's `&` costs as much as a small message


class SharedPayload:
    """The parts of a message, the large ones in shared memory: made once, sent to many.

    Attributes:
        lengths: Length of each part, with `IN_SHARED` where it lies in the memory.
        inline: The parts that travel in the stream.
        fd: Descriptor of the shared memory, or -1. `close` releases it.
        nbytes: Bytes in shared memory.
    """

    __slots__ = ("fd", "inline", "lengths", "nbytes")

    def __init__(self, lengths: list[int], inline: list[Part], fd: int, nbytes: int) -> None:
        self.lengths = lengths
        self.inline = inline
        self.fd = fd
        self.nbytes = nbytes

    def close(self) -> None:
        """Release the descriptor; receivers keep theirs."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def share(parts: Sequence[Part]) -> SharedPayload:
    """Put the large parts into shared memory: one copy, however many receivers there are.

    Raises:
        OSError: There is not enough memory, or no descriptor left (ulimit -n).
    """
    least = threshold()
    views = [memoryview(part).cast("B") for part in parts]
    large = [view for view in views if view.nbytes >= least]
    if not large:
        return SharedPayload([view.nbytes for view in views], list(views), -1, 0)
    offsets, total = shared_layout([view.nbytes for view in large])
    fd = os.memfd_create("danaus", os.MFD_CLOEXEC)
    try:
        for offset, view in zip(offsets, large, strict=True):
            done = 0
            while done < view.nbytes:
                done += os.pwrite(fd, view[done : done + (1 << 30)], offset + done)
    except BaseException:
        os.close(fd)
        raise
    lengths = [view.nbytes | (IN_SHARED if view.nbytes >= least else 0) for view in views]
    inline: list[Part] = [view for view in views if view.nbytes < least]
    return SharedPayload(lengths, inline, fd, total)


def take_parts(frame: Frame, fd: int) -> list[Part]:
    """The parts of ``frame``; those in shared memory are mapped copy-on-write. Closes ``fd``.

    Raises:
        FrameError: The shared memory is smaller than the frame says.
    """
    lengths = [n & ~IN_SHARED for n in frame.lengths if n & IN_SHARED]
    try:
        offsets, total = shared_layout(lengths)
        if os.fstat(fd).st_size < offsets[-1] + lengths[-1]:
            raise FrameError("the shared memory is smaller than the frame says")
        total = offsets[-1] + lengths[-1]
        memory = mmap.mmap(fd, total, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(fd)
    view = memoryview(memory)
    places = iter(zip(offsets, lengths, strict=True))
    parts: list[Part] = []
    for part in frame.parts:
        if part is None:
            offset, length = next(places)
            parts.append(view[offset : offset + length])
        else:
            parts.append(part)
    return parts


class Link:
    """Frames over one connected stream socket.

    ``on_frame(link, frame, fds)`` is called on the driving thread for each frame, with the
    descriptors that accompany it; ``on_lost(link, why)`` once, when the connection has ended.
    """

    def __init__(
        self,
        sock: socket.socket,
        reactor: Reactor,
        on_frame: Callable[[Link, Frame, list[int]], None],
        on_lost: Callable[[Link, str], None],
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
        """Id of the process at the other end; empty until it is known."""
        self.context: Any = None
        """Whatever the owner of the link keeps with it."""
        self._may_wait = may_wait
        self._lock = threading.Lock()
        self._queue: deque[tuple[Sequence[Part], list[int]]] = deque()
        self._queued = 0
        self._outgoing: tuple[Sequence[Part], list[int]] | None = None
        """The frame that a sender is writing now."""
        self._sent = -1
        """How much of it the socket took; -1 while it was not asked yet."""
        self._unfinished: tuple[Sequence[Part], list[int]] | None = None
        """What is left of it, on its way to the queue."""
        self._drained: threading.Condition | None = None
        self._decoder = FrameDecoder()
        self._fds: deque[int] = deque()
        self._buffer = bytearray(_READ)
        self._view = memoryview(self._buffer)
        self.lost = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.frames_in = 0
        self.frames_out = 0
        reactor.register(self._fd, self, _IN)

    def __repr__(self) -> str:
        state = "lost" if self.lost else "up"
        return f"<Link to {self.peer or 'unknown peer'} {state}>"

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

    def forward(self, frame: Frame, fds: list[int]) -> bool:
        """Send a received frame on as it is. The caller keeps the descriptors."""
        head = encode_head(frame.kind, frame.flags, frame.routing, frame.lengths)
        return self.send_buffers([head, *(p for p in frame.parts if p is not None)], fds)

    def send_buffers(self, buffers: Sequence[Part], fds: list[int]) -> bool:
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

    def _write(self, buffers: Sequence[Part], fds: list[int]) -> int:
        return self._sock.sendmsg(buffers[:_MAX_BUFFERS], rights(fds), _NONBLOCK)

    def _enqueue(self, entry: tuple[Sequence[Part], list[int]]) -> None:
        self._queued += sum(map(len, entry[0]))
        self._queue.append(entry)
        self._reactor.modify(self._fd, _IN | _OUT)

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
                        self._reactor.modify(self._fd, _IN)
                    return
                for fd in fds:
                    os.close(fd)
                self._queued -= sent
                rest = _after(buffers, sent)
                if rest:
                    self._queue.appendleft((rest, []))
                    return
            self._reactor.modify(self._fd, _IN)
            if self._drained is not None:
                self._drained.notify_all()

    def _take_batch(self) -> tuple[list[Part], list[int]]:
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
        if mask & _OUT:
            self._drain()
        if mask & ~_OUT and not self.lost:
            self._read()

    def _read(self) -> None:
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
            self._take_descriptors(ancillary)
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
            frames = self._decoder.feed(self._view[:count])
        except FrameError as error:
            self._end(f"the peer sent what is no frame: {error}")
            return
        for frame in frames:
            self.frames_in += 1
            fds = [self._fds.popleft() for _ in range(frame.descriptors)] if frame.flags else []
            self._on_frame(self, frame, fds)

    def _take_descriptors(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
                self._fds.extend(received)

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

    def close(self) -> None:
        """End the link from this side; ``on_lost`` is not called."""
        if not self.lost:
            self._release()


def rights(fds: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    """Ancillary data that passes these descriptors."""
    if not fds:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]


def _kept(buffers: Sequence[Part], fds: list[int]) -> tuple[list[Part], list[int]]:
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
