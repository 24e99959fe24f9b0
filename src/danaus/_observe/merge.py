"""Which lines did several ranks print alike, just now?

Ranks that run the same program print the same lines within milliseconds. `RankMerger` shows each
of those once, with the ranks that printed it, and delays output by no more than a blink.

Nothing else is merged: what one rank repeats stays repeated, and each rank's lines keep their
order. The n-th line of a rank may join a line of another rank only below the one that its own line
before joined, so what is given out contains each rank's output as a subsequence.
"""

from __future__ import annotations

from bisect import bisect_right

from danaus._observe.record import Merged, Source, Stream

__all__ = ["RankMerger"]

_MAX_LINES = 10_000  # collected lines; more are due at once


class RankMerger:
    """Merges identical lines of different processes.

    Args:
        window: Seconds for which a line waits for the same line of others.
    """

    __slots__ = ("_first_at", "_last", "_lines", "_printers", "_tables", "_window")

    def __init__(self, window: float = 0.1) -> None:
        self._window = window
        self._start()

    def _start(self) -> None:
        self._first_at: float | None = None
        self._lines: list[tuple[Stream, bytes]] = []
        self._printers: list[list[Source]] = []
        # Where in `_lines` a text stands, ascending; per stream, which saves making a key.
        self._tables: dict[Stream, dict[bytes, list[int]]] = {1: {}, 2: {}}
        self._last: dict[Source, int] = {}

    @property
    def window(self) -> float:
        """Seconds for which a line waits for the same line of others."""
        return self._window

    @property
    def deadline(self) -> float | None:
        """When `take_due` will have something, None while nothing is collected."""
        if self._first_at is None or len(self._lines) >= _MAX_LINES:
            return self._first_at
        return self._first_at + self._window

    def add(self, source: Source, stream: Stream, line: bytes, now: float) -> None:
        """Take one line."""
        if self._first_at is None:
            self._first_at = now
        positions = self._tables[stream].setdefault(line, [])
        last = self._last.get(source, -1)
        if positions and positions[-1] > last:
            position = positions[bisect_right(positions, last)]
            self._printers[position].append(source)
        else:
            position = len(self._lines)
            positions.append(position)
            self._lines.append((stream, line))
            self._printers.append([source])
        self._last[source] = position

    def take_due(self, now: float) -> list[Merged]:
        """Give out everything if the deadline has come."""
        deadline = self.deadline
        return [] if deadline is None or now < deadline else self.flush()

    def flush(self) -> list[Merged]:
        """Give out everything now."""
        lines, printers = self._lines, self._printers
        self._start()
        return [
            Merged(
                stream=stream,
                source=sources[0],
                ranks=tuple(sorted(source.rank for source in sources if source.rank is not None)),
                procs=len(sources),
                lines=len(sources),
                text=line.decode("utf-8", "replace"),
                similar=False,
            )
            for (stream, line), sources in zip(lines, printers, strict=True)
        ]
