"""Frames: how messages lie in a byte stream.

One frame is::

    kind u8 | flags u8 | parts u16 | routing length u32      (little endian)
    length of each part, u64; the top bit says that the part lies in the frame's shared memory
    routing (msgpack, readable without user code)
    the parts that travel in the stream, one after the other

Part 0 is the pickle, the others are its out-of-band buffers. At most one descriptor of shared
memory and one handed-over descriptor accompany a frame; they travel beside its first byte.
The parts in shared memory lie there in order, each at the next multiple of `ALIGN` bytes.

The decoder is incremental. It never allocates more than it has received, and refuses what cannot
be a frame with `FrameError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

__all__ = [
    "ALIGN",
    "FLAG_HANDOVER",
    "FLAG_SHARED",
    "IN_SHARED",
    "MAX_ROUTING",
    "Frame",
    "FrameDecoder",
    "FrameError",
    "encode_head",
    "encode_small",
    "shared_layout",
]

FLAG_SHARED = 1
"""One descriptor of shared memory accompanies the frame."""
FLAG_HANDOVER = 2
"""One handed-over descriptor (a connection) accompanies the frame."""

IN_SHARED = 1 << 63
"""Bit of a part's length: the part lies in shared memory."""

MAX_ROUTING = 64 << 20
"""Longest routing part, in bytes (a cast over 100,000 hosts needs about 6 MB)."""

ALIGN = 64
"""Alignment of parts in shared memory, in bytes: a cache line, and any numpy type."""

_head = Struct("<BBHI")
_length = Struct("<Q")
_small = Struct("<BBHIQ")
_HEAD = _head.size
_SMALL = _small.size

Part = bytes | bytearray | memoryview


class FrameError(ValueError):
    """The bytes cannot be a frame: the peer is broken, or is no peer."""


class Frame:
    """One received frame. ``parts[i]`` is None where part i lies in shared memory."""

    __slots__ = ("flags", "kind", "lengths", "parts", "routing")

    def __init__(
        self, kind: int, flags: int, routing: bytes, parts: list[Part | None], lengths: list[int]
    ) -> None:
        self.kind = kind
        self.flags = flags
        self.routing = routing
        self.parts = parts
        self.lengths = lengths

    @property
    def descriptors(self) -> int:
        """How many descriptors accompany the frame."""
        return (self.flags & 1) + (self.flags >> 1 & 1)


def encode_small(kind: int, routing: bytes, body: bytes) -> bytes:
    """The whole of a frame with one part in the stream: the common case, in one call."""
    return _small.pack(kind, 0, 1, len(routing), len(body)) + routing + body


def encode_head(kind: int, flags: int, routing: bytes, lengths: Sequence[int]) -> bytes:
    """Everything of a frame before its parts; ``lengths`` carry `IN_SHARED` where it applies."""
    head = _head.pack(kind, flags, len(lengths), len(routing))
    return head + b"".join(map(_length.pack, lengths)) + routing


def shared_layout(lengths: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of parts of these lengths in shared memory, and the size of the whole."""
    offsets: list[int] = []
    position = 0
    for length in lengths:
        offsets.append(position)
        position += (length + ALIGN - 1) // ALIGN * ALIGN
    return offsets, position


class FrameDecoder:
    """Cuts a byte stream into frames.

    Example:
        >>> decoder = FrameDecoder()
        >>> [f.routing for f in decoder.feed(encode_small(1, b"r", b"body"))]
        [b'r']
    """

    __slots__ = ("_have", "_rest", "_wanted")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """Received chunks that do not make a frame yet."""
        self._have = 0
        """Bytes in `_rest`."""
        self._wanted = 0
        """Bytes of `_rest` needed before another look is worth while."""

    @property
    def pending(self) -> int:
        """Bytes received that belong to a frame not yet complete."""
        return self._have

    def feed(self, data: memoryview | bytes) -> list[Frame]:
        """Take bytes as they came; return the frames that they complete, in order.

        Raises:
            FrameError: The bytes cannot be a frame. The stream is of no more use.
        """
        if self._have:
            self._rest.append(bytes(data))
            self._have += len(data)
            if self._have < self._wanted:
                return []
            data = b"".join(self._rest)
            self._rest.clear()
            self._have = 0
        frames: list[Frame] = []
        view = memoryview(data)
        size = len(view)
        position = self._small_ones(view, size, frames)
        while size - position >= _HEAD:
            end = self._one(view, position, size, frames)
            if end < 0:
                break
            position = end
        if position < size:
            self._rest.append(bytes(view[position:]))
            self._have = size - position
            if self._have < _HEAD:
                self._wanted = _HEAD
        return frames

    def _small_ones(self, view: memoryview, size: int, frames: list[Frame]) -> int:
        """Append the frames of one part at the start of ``view``; return where they end.

        The same as `_one`, unrolled for the common case: tests hold the two against each other.
        """
        position = 0
        while size - position >= _SMALL:
            kind, flags, count, routing_length, length = _small.unpack_from(view, position)
            if flags or count != 1 or routing_length > MAX_ROUTING or length & IN_SHARED:
                break
            middle = position + _SMALL + routing_length
            end = middle + length
            if end > size:
                break
            routing = bytes(view[position + _SMALL : middle])
            frames.append(Frame(kind, 0, routing, [bytes(view[middle:end])], [length]))
            position = end
        return position

    def _one(self, view: memoryview, start: int, size: int, frames: list[Frame]) -> int:
        """Append the frame at ``start``; return its end, or -1 when it is not complete."""
        kind, flags, count, routing_length = _head.unpack_from(view, start)
        if flags > FLAG_SHARED + FLAG_HANDOVER or routing_length > MAX_ROUTING:
            raise FrameError(
                f"no frame: kind {kind}, flags {flags:#x}, routing of {routing_length} bytes"
            )
        position = start + _HEAD + 8 * count
        if size < position:
            self._wanted = position - start
            return -1
        lengths: list[int] = []
        total = position + routing_length
        for i in range(count):
            (length,) = _length.unpack_from(view, start + _HEAD + 8 * i)
            lengths.append(length)
            if not length & IN_SHARED:
                total += length
            elif not flags & FLAG_SHARED:
                raise FrameError("a part lies in shared memory, but the frame brings none")
        if size < total:
            self._wanted = total - start
            return -1
        end = position + routing_length
        routing = bytes(view[position:end])
        parts: list[Part | None] = []
        for length in lengths:
            if length & IN_SHARED:
                parts.append(None)
            else:
                # Out-of-band parts become arrays that their receiver may write to.
                piece = view[end : end + length]
                parts.append(bytearray(piece) if parts else bytes(piece))
                end += length
        frames.append(Frame(kind, flags, routing, parts, lengths))
        return end
