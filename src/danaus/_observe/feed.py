"""In which way is the output of one mesh shown?

Each mesh has one `OutputFeed`: it passes lines on as they come, or collects them in a merger.
Progress goes past the merger where the renderer shows it in a row that is rewritten; elsewhere the
latest state of a bar counts as a line, at most once a second and once in a merger's window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from danaus._observe.lines import is_update
from danaus._observe.progress import LatestUpdates
from danaus._observe.record import Entry, Merger, Pieces, Source, Stream

__all__ = ["OutputFeed"]


class OutputFeed:
    """Turns the output of one mesh into what a renderer shows. Not thread-safe.

    Args:
        rewrites: Tells whether a stream shows progress in a row that is rewritten in place.
        merger: What collects the lines; None shows each line as it comes.
    """

    __slots__ = ("_merger", "_rewrites", "_rows", "_updates")

    def __init__(self, rewrites: Callable[[Stream], bool], merger: Merger | None = None) -> None:
        self._rewrites = rewrites
        self._merger = merger
        self._updates = _updates_beside(merger)
        self._rows: set[tuple[Source, Stream]] = set()  # bars that the renderer may show

    @property
    def deadline(self) -> float | None:
        """When `take_due` will have something, None while nothing is collected."""
        deadlines = (
            self._updates.deadline,
            None if self._merger is None else self._merger.deadline,
        )
        return min((at for at in deadlines if at is not None), default=None)

    def receive(self, output: Pieces, now: float) -> Sequence[Entry]:
        """Take output of one process, and return what is to be shown at once."""
        source, stream, pieces = output
        if not pieces:
            return ()
        lines = [piece for piece in pieces if not is_update(piece)]
        if self._rewrites(stream):
            if self._merger is None:
                return (output,)
            shown = self._row(output)
        else:
            shown = ()
            if lines:
                self._updates.settle(source, stream)
            if is_update(pieces[-1]):
                self._updates.add(source, stream, pieces[-1], now)
        if lines:
            shown = (*shown, *self._collect(Pieces(source, stream, lines), now))
        return (*shown, *self.take_due(now))

    def take_due(self, now: float) -> Sequence[Entry]:
        """Return what was collected, if it is time to show it."""
        shown = [
            entry for state in self._updates.take_due(now) for entry in self._collect(state, now)
        ]
        return shown if self._merger is None else [*shown, *self._merger.take_due(now)]

    def flush(self, now: float) -> Sequence[Entry]:
        """Return what was collected, now."""
        shown = [entry for state in self._updates.flush() for entry in self._collect(state, now)]
        return shown if self._merger is None else [*shown, *self._merger.flush()]

    def use(self, merger: Merger | None, now: float) -> Sequence[Entry]:
        """Collect with another merger from now on, and return what the old one had collected."""
        collected = self.flush(now)
        self._merger = merger
        self._updates = _updates_beside(merger)
        return collected

    def _collect(self, lines: Pieces, now: float) -> Sequence[Entry]:
        if self._merger is None:
            return (lines,)
        for line in lines.pieces:
            self._merger.add(lines.source, lines.stream, line, now)
        return ()

    def _row(self, output: Pieces) -> Sequence[Entry]:
        """Return what the output means to the row: the latest state of a bar, or its end."""
        source, stream, pieces = output
        if is_update(pieces[-1]):
            self._rows.add((source, stream))
            return (Pieces(source, stream, pieces[-1:]),)
        if (source, stream) in self._rows:
            self._rows.remove((source, stream))
            return (Pieces(source, stream, [b"\r"]),)  # a state of nothing erases the bar
        return ()


def _updates_beside(merger: Merger | None) -> LatestUpdates:
    return LatestUpdates(interval=1.0 if merger is None else max(1.0, merger.window))
