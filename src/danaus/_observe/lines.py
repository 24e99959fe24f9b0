r"""Which lines does a stream of bytes hold, and which were its last?

A process writes bytes: lines, pieces of lines, progress bars that rewrite themselves with a
carriage return, binary rubbish. `LineSplitter` turns them into *pieces*, plain `bytes`:

* a **line**, without its line end (``\n`` or ``\r\n``);
* an **update**, which ends in ``\r``: a state of a progress bar that the next piece overwrites.
  No line contains ``\r``, so the last byte tells the two apart.

A piece is always whole; whoever reads it needs no memory of the one before. The way in which the
bytes were cut into chunks has no influence on the pieces. Memory is bounded by the longest line
that is passed on, whatever the process writes.

Time is an argument (`now`, seconds of any monotonic clock).
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections import deque
from collections.abc import Sequence

__all__ = ["HOLD", "MAX_LINE", "TRUNCATED", "LineSplitter", "TailBuffer", "is_update"]

MAX_LINE = 4096
"""Bytes of a line that are passed on; the rest of a longer one is dropped."""

TRUNCATED = b"... [TRUNCATED]"
"""Stands where the rest of a line was dropped."""

HOLD = 0.2
"""Seconds for which an unfinished line is held back.

Long enough for a writer that composes a line from several writes, short enough for a prompt.
"""


def is_update(piece: bytes) -> bool:
    """Tell whether a piece is a state of a progress bar, which the next piece overwrites."""
    return piece[-1:] == b"\r"


class LineSplitter:
    r"""Splits one stream of one process into lines and progress updates.

    Example:
        >>> splitter = LineSplitter()
        >>> splitter.feed(b"one\ntwo\r\nthr", 0.0)
        [b'one', b'two']
        >>> splitter.take_partial(0.1), splitter.take_partial(0.2)
        ([], [b'thr'])
        >>> splitter.feed(b"\n10%\r20%\r", 1.0)
        [b'10%\r']
        >>> splitter.flush()
        [b'20%']

    Args:
        max_line: Bytes of a line that are passed on.
        hold: Seconds after which `take_partial` gives out an unfinished line.
    """

    __slots__ = (
        "_carriage",
        "_dropping",
        "_held",
        "_hold",
        "_in_progress",
        "_max_line",
        "_previewed",
        "_since",
        "_torn",
    )

    def __init__(self, *, max_line: int = MAX_LINE, hold: float = HOLD) -> None:
        self._max_line = max_line
        self._hold = hold
        self._held = b""  # what the terminal row shows; at most max_line + 1 bytes
        self._since: float | None = None  # when the part of it that nobody has seen began
        self._dropping = False  # the row is too long: ignore what follows on it
        self._carriage = False  # a "\r" came: the next text starts the row anew
        self._in_progress = False  # some "\r" came since the last "\n"
        self._torn = False  # a part of this line was given out as a line of its own
        self._previewed = False  # the held text was given out as an update

    @property
    def deadline(self) -> float | None:
        """When `take_partial` will have something, None if it has nothing to wait for."""
        return None if self._since is None else self._since + self._hold

    def feed(self, data: bytes, now: float) -> list[bytes]:
        """Take the next bytes of the stream, and return the pieces that they complete.

        Args:
            data: Any bytes, cut anywhere.
            now: Seconds; starts the clock of an unfinished line.
        """
        if self._in_progress or b"\r" in data:
            return self._feed_progress(data, now)
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines:
            if len(data) > self._max_line and max(map(len, lines)) > self._max_line:
                lines[1:] = [self._cut(line) for line in lines[1:]]
            self._append(lines[0], now)
            first = self._end_line()
            if first is None:
                del lines[0]
            else:
                lines[0] = first
        if rest:
            self._append(rest, now)
        return lines

    def take_partial(self, now: float) -> list[bytes]:
        r"""Give out the unfinished line if it has been held for long enough.

        What is given out becomes a line of its own, and so does what follows on it. A progress
        bar is not torn: its state is given out as an update, and again when it is complete.
        A character of which only some bytes have come is held back.

        Returns:
            No piece or one.
        """
        if self._since is None or now < self._since + self._hold:
            return []
        self._since = None
        text = self._cut(self._held)
        whole = text if self._dropping else text[: _whole_characters(text)]
        if not whole:
            return []
        if self._in_progress:
            self._previewed = True
            return [whole + b"\r"]
        self._torn = True
        self._held = b"" if self._dropping else text[len(whole) :]
        return [whole]

    def flush(self) -> list[bytes]:
        """Give out what is held at the end of the stream, as a line; afterwards all is new."""
        held = bool(self._held)
        line = self._end_line()
        return [line] if held and line is not None else []

    def _feed_progress(self, data: bytes, now: float) -> list[bytes]:
        pieces: list[bytes] = []
        for number, row in enumerate(data.split(b"\n")):
            if number:
                line = self._end_line()
                if line is not None:
                    pieces.append(line)
            first, *others = row.split(b"\r")
            if first:
                self._write(first, now, pieces)
            for text in others:
                self._carriage = self._in_progress = True
                if text:
                    self._write(text, now, pieces)
        return pieces

    def _write(self, text: bytes, now: float, pieces: list[bytes]) -> None:
        # Only text that follows a "\r" makes an update of what stood before it: this keeps
        # "\r\n" a plain line end, and the last state of a bar becomes a line at its "\n".
        if self._carriage:
            if self._held and not self._previewed:
                pieces.append(self._cut(self._held) + b"\r")
            self._start_row()
        self._append(text, now)

    def _append(self, text: bytes, now: float) -> None:
        if self._dropping:
            return
        held = self._held + text
        if len(held) > self._max_line:
            self._dropping = True
            held = held[: self._max_line + 1]  # one byte more tells that there was more
        self._held = held
        self._previewed = False
        if self._since is None:
            self._since = now

    def _end_line(self) -> bytes | None:
        """Forget the line at its end and return it, None if all of it was given out before."""
        line = None if self._torn and not self._held else self._cut(self._held)
        self._start_row()
        self._in_progress = self._torn = False
        return line

    def _start_row(self) -> None:
        self._held = b""
        self._since = None
        self._carriage = self._dropping = self._previewed = False

    def _cut(self, line: bytes) -> bytes:
        if len(line) <= self._max_line:
            return line
        start = line[: self._max_line]
        return start[: _whole_characters(start)] + TRUNCATED


class TailBuffer:
    r"""The last lines of a stream, for the report of a process that failed.

    A progress update is replaced by the piece that follows it, as on a terminal.

    Example:
        >>> tail = TailBuffer(max_lines=2)
        >>> tail.extend([b"one", b"two", b"10%\r", b"20%\r"])
        >>> tail.lines()
        [b'two', b'20%']

    Args:
        max_lines: Lines that are kept; 0 keeps none.
        max_bytes: Bytes that are kept; the oldest lines go first.
    """

    __slots__ = ("_lines", "_max_bytes", "_nbytes")

    def __init__(self, max_lines: int = 100, *, max_bytes: int = 64 << 10) -> None:
        self._lines: deque[bytes] = deque(maxlen=max_lines)
        self._max_bytes = max_bytes
        self._nbytes = 0

    def extend(self, pieces: Sequence[bytes]) -> None:
        """Add pieces of a `LineSplitter`; costs at most `max_lines` of them and their updates."""
        room = self._lines.maxlen or 0
        fresh: list[bytes] = []
        for piece in reversed(pieces):
            if len(fresh) == room:
                break
            if not fresh or not is_update(piece):
                fresh.append(piece[: self._max_bytes])
        if fresh and self._lines and is_update(self._lines[-1]):
            self._nbytes -= len(self._lines.pop())
        for piece in reversed(fresh):
            if len(self._lines) == room:
                self._nbytes -= len(self._lines[0])
            self._lines.append(piece)
            self._nbytes += len(piece)
        while self._nbytes > self._max_bytes:
            self._nbytes -= len(self._lines.popleft())

    def lines(self) -> list[bytes]:
        """Return the kept lines, oldest first."""
        return [line.rstrip(b"\r") for line in self._lines]


def _whole_characters(text: bytes) -> int:
    """Return the length of `text` less a UTF-8 character at its end that is not complete."""
    return utf_8_decode(text, "replace", False)[1]  # noqa: FBT003  # the codec knows no keywords
