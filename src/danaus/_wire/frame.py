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

LARGE = 1 << 20
"""Bytes from which on the parts of a frame are filled as they come, and not cut out of what came:
in memory they are there once."""

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


class _Filling:
    """A large frame of which the head and the routing are there: its parts are filled in place.

    They grow with what is received, so a head that lies about a length costs nothing.
    """

    __slots__ = ("_frame", "_piece", "_position", "have")

    def __init__(self, kind: int, flags: int, routing: bytes, lengths: list[int]) -> None:
        self.have = _HEAD + 8 * len(lengths) + len(routing)
        """Bytes of it that were received."""
        self._frame = Frame(kind, flags, routing, [], lengths)
        self._piece = bytearray()
        self._position = 0
        """Index of the part that is being filled."""

    def fill(self, view: memoryview) -> tuple[int, Frame | None]:
        """Take from ``view``: how many bytes, and the frame if that was its end."""
        frame = self._frame
        taken = 0
        while self._position < len(frame.lengths):
            length = frame.lengths[self._position]
            if length & IN_SHARED:
                frame.parts.append(None)
                self._position += 1
                continue
            piece = view[taken : taken + length - len(self._piece)]
            self._piece += piece
            taken += len(piece)
            self.have += len(piece)
            if len(self._piece) < length:
                return taken, None
            frame.parts.append(self._piece if frame.parts else _read_only(self._piece))
            self._piece = bytearray()
            self._position += 1
        return taken, frame


def _read_only(pickle: bytearray) -> Part:
    return bytes(pickle) if len(pickle) < LARGE else memoryview(pickle).toreadonly()


class FrameDecoder:
    """Cuts a byte stream into frames.

    Example:
        >>> decoder = FrameDecoder()
        >>> [f.routing for f in decoder.feed(encode_small(1, b"r", b"body"))]
        [b'r']
    """

    __slots__ = ("_filling", "_have", "_rest", "_wanted")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """Received chunks that do not make a frame yet."""
        self._have = 0
        """Bytes in `_rest`."""
        self._wanted = 0
        """Bytes of `_rest` needed before another look is worth while."""
        self._filling: _Filling | None = None
        """A large frame, of which all that was received is in its parts already."""

    @property
    def pending(self) -> int:
        """Bytes received that belong to a frame not yet complete."""
        return self._have if self._filling is None else self._filling.have

    def feed(self, data: memoryview | bytes) -> list[Frame]:
        """Take bytes as they came; return the frames that they complete, in order.

        Raises:
            FrameError: The bytes cannot be a frame. The stream is of no more use.
        """
        frames: list[Frame] = []
        if self._filling is not None:
            view = memoryview(data)
            taken, frame = self._filling.fill(view)
            if frame is None:
                return []
            self._filling = None
            frames.append(frame)
            if taken == len(view):
                return frames
            data = view[taken:]
        elif self._have:
            self._rest.append(bytes(data))
            self._have += len(data)
            if self._have < self._wanted:
                return []
            data = b"".join(self._rest)
            self._rest.clear()
            self._have = 0
        view = memoryview(data)
        size = len(view)
        position = self._small_ones(view, size, frames)
        while size - position >= _HEAD:
            end = self._one(view, position, size, frames)
            if end < 0:
                break
            position = end
        if position < size and self._filling is None:
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
        end = position + routing_length
        if size < total:
            if total - start >= LARGE and size >= end:
                routing = bytes(view[position:end])
                self._filling = _Filling(kind, flags, routing, lengths)
                self._filling.fill(view[end:size])
            self._wanted = (total if total - start < LARGE else end) - start
            return -1
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
