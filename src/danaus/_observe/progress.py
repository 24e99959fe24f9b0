"""Which progress bar is shown, and when?

A bar rewrites itself many times a second, and every rank has one. Only the latest state of each
counts. `LatestUpdates` keeps it where progress is printed as lines, now and then.
`ProgressRow` chooses the one row that a terminal shows: the bar of the lowest rank that moves, and
how many others there are. One row, because more than one could not be rewritten without
destroying what the client's own program prints in between.
"""

from __future__ import annotations

from danaus._observe.record import Pieces, Source, Stream

__all__ = ["LatestUpdates", "ProgressRow"]

Key = tuple[Source, Stream]


class LatestUpdates:
    """Keeps the latest state of every bar, and gives each out at most once per interval.

    Args:
        interval: Seconds between two states of one bar that are given out.
    """

    __slots__ = ("_due", "_interval", "_quiet_until", "_states")

    def __init__(self, interval: float = 1.0) -> None:
        self._interval = interval
        self._states: dict[Key, bytes] = {}
        self._due: float | None = None
        self._quiet_until = float("-inf")

    @property
    def deadline(self) -> float | None:
        """When `take_due` will have something, None while there is nothing."""
        return self._due

    def add(self, source: Source, stream: Stream, update: bytes, now: float) -> None:
        """Take the latest state of a bar; a state of nothing but spaces erases it."""
        text = update.rstrip()
        if not text:
            self.settle(source, stream)
            return
        self._states[source, stream] = text
        if self._due is None:
            self._due = max(now, self._quiet_until)

    def settle(self, source: Source, stream: Stream) -> None:
        """Forget a bar, since a line took its place."""
        if self._states.pop((source, stream), None) is not None and not self._states:
            self._due = None

    def take_due(self, now: float) -> list[Pieces]:
        """Give out the states, as lines, if the interval since the last time has passed."""
        if self._due is None or now < self._due:
            return []
        self._quiet_until = now + self._interval
        return self.flush()

    def flush(self) -> list[Pieces]:
        """Give out the states, as lines, now."""
        states, self._states, self._due = self._states, {}, None
        return [Pieces(source, stream, [text]) for (source, stream), text in states.items()]


class ProgressRow:
    """Chooses the row of progress at the bottom of a terminal.

    Args:
        interval: Seconds between two changes of the row.
        still_after: Seconds after which a bar that does not move gives way to one that does.
    """

    __slots__ = ("_bars", "_changed", "_interval", "_shown_at", "_still_after")

    def __init__(self, interval: float = 0.1, still_after: float = 3.0) -> None:
        self._interval = interval
        self._still_after = still_after
        self._bars: dict[Key, tuple[bytes, float]] = {}
        self._changed = False
        self._shown_at = float("-inf")

    @property
    def deadline(self) -> float | None:
        """When the row should be drawn anew, None while nothing changed."""
        return self._shown_at + self._interval if self._changed else None

    def add(self, source: Source, stream: Stream, update: bytes, now: float) -> None:
        """Take the latest state of a bar; a state of nothing but spaces erases it."""
        text = update.rstrip()
        if text:
            self._bars[source, stream] = (text, now)
            self._changed = True
        else:
            self.settle(source, stream)

    def settle(self, source: Source, stream: Stream) -> None:
        """Forget a bar, since a line took its place."""
        if self._bars.pop((source, stream), None) is not None:
            self._changed = True

    def draw(self, now: float) -> tuple[Pieces, int] | None:
        """Return the bar to show and the number of other bars; None if there is none."""
        self._changed = False
        self._shown_at = now
        if not self._bars:
            return None
        moving = max(at for _, at in self._bars.values()) - self._still_after
        source, stream = min(
            (key for key, (_, at) in self._bars.items() if at >= moving), key=_by_rank
        )
        return Pieces(source, stream, [self._bars[source, stream][0]]), len(self._bars) - 1

    def flush(self) -> list[Pieces]:
        """Give out the latest state of every bar, as lines, and forget them."""
        bars, self._bars, self._changed = self._bars, {}, False
        return [Pieces(source, stream, [text]) for (source, stream), (text, _) in bars.items()]


def _by_rank(key: Key) -> tuple[float, Source, Stream]:
    source, stream = key
    # Source would compare None with a number: the rank has to differ in the first element.
    rank = -1.0 if source.rank is None else float(source.rank)
    return rank, source._replace(rank=0), stream
