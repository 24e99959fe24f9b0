"""Large parts of messages in shared memory: one copy, however many receivers there are.

The parts of `bulk_threshold` bytes and more of a message lie in one memfd, whose descriptor
accompanies the frame. Receivers map it copy-on-write.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from danaus._proc.system import NATIVE
from danaus._wire.codec import threshold
from danaus._wire.frame import IN_SHARED, Frame, FrameError, shared_layout

if TYPE_CHECKING:
    from danaus._net.link import Link

__all__ = [
    "SharedPayload",
    "received_parts",
    "received_payload",
    "send_parts",
    "share",
    "take_parts",
]

Part = bytes | bytearray | memoryview


class SharedPayload:
    """The parts of a message, the large ones in shared memory: made once, sent to many.

    Attributes:
        lengths: Length of each part, with `IN_SHARED` where it lies in the memory.
        inline: The parts that travel in the stream.
        fd: Descriptor of the shared memory, or -1. `close` releases it.
        nbytes: Bytes in shared memory.
    """

    __slots__ = ("_whole", "fd", "inline", "lengths", "nbytes")

    def __init__(self, lengths: list[int], inline: list[Part], fd: int, nbytes: int) -> None:
        self.lengths = lengths
        self.inline = inline
        self.fd = fd
        self.nbytes = nbytes
        self._whole: list[Part] | None = None

    def whole(self) -> list[Part]:
        """All parts, in memory that nobody changes: for peers that can share none with us."""
        if self._whole is None:
            if self.fd >= 0:
                inline = iter(self.inline)
                given: list[Part | None] = [
                    None if length & IN_SHARED else bytes(next(inline)) for length in self.lengths
                ]
                frame = Frame(0, 0, b"", given, self.lengths)
                self._whole = take_parts(frame, os.dup(self.fd))
            else:
                self._whole = [
                    part if isinstance(part, bytes) else bytes(part) for part in self.inline
                ]
        return self._whole

    def another(self) -> SharedPayload:
        """The same parts, with a descriptor of its own."""
        fd = os.dup(self.fd) if self.fd >= 0 else -1
        return SharedPayload(self.lengths, self.inline, fd, self.nbytes)

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
    large = [view for view in views if view.nbytes >= least] if NATIVE else []
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


def received_payload(frame: Frame, fds: Sequence[int]) -> SharedPayload:
    """The parts of a received frame, to be sent on to many. The caller keeps the descriptors."""
    inline = [part for part in frame.parts if part is not None]
    if fds:
        lengths = [n & ~IN_SHARED for n in frame.lengths if n & IN_SHARED]
        return SharedPayload(frame.lengths, inline, os.dup(fds[0]), shared_layout(lengths)[1])
    return share(inline)


def received_parts(frame: Frame, fds: Sequence[int]) -> Sequence[Any]:
    """The parts of a received frame, wherever they lie. The caller keeps the descriptors."""
    return take_parts(frame, os.dup(fds[0])) if fds else frame.parts


def send_parts(link: Link, kind: int, routing: bytes, parts: Sequence[Part]) -> None:
    """Send a frame with these parts, the large ones in shared memory.

    Raises:
        OSError: There is not enough memory, or no descriptor left.
    """
    payload = share(parts)
    try:
        link.send(kind, routing, payload)
    finally:
        payload.close()


def take_parts(frame: Frame, fd: int) -> list[Part]:
    """The parts of ``frame``; those in shared memory are mapped copy-on-write. Closes ``fd``.

    Raises:
        FrameError: No part lies in shared memory, or it is smaller than the frame says.
    """
    lengths = [n & ~IN_SHARED for n in frame.lengths if n & IN_SHARED]
    try:
        if not any(lengths):
            raise FrameError("shared memory comes with a frame that has no part in it")
        offsets, _ = shared_layout(lengths)
        total = offsets[-1] + lengths[-1]
        if os.fstat(fd).st_size < total:
            raise FrameError("the shared memory is smaller than the frame says")
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
