"""Which lines of a whole window resemble each other?

`Aggregator` collects the lines of all ranks for some seconds and gives out one text for each group
of similar ones. Finding the group of a line gets dearer step by step, and each step is bounded, so
that a flood of lines costs about a microsecond each:

1. a line that came before, by a dictionary;
2. a line that differs from another in numbers only, by a dictionary of lines without numbers;
3. a line that resembles one of the latest groups, by comparison, while few groups are there and
   the budget of comparisons lasts;
4. otherwise it starts a group.
"""

from __future__ import annotations

import re
from collections import deque

from danaus._observe.record import Merged, Source, Stream
from danaus._observe.template import make_template, resemble

__all__ = ["Aggregator"]

_MAX_GROUPS = 4096  # more are due at once: bounds the memory
_MAX_EXACT = 16_384  # lines per stream that are found without looking for their numbers
_MAX_SAMPLES = 8  # lines of a group that its template is made of
_NEAR_GROUPS = 16  # latest groups that a line is compared with
_FEW_GROUPS = 256  # groups beyond which lines are no longer compared
_COMPARISONS = 2_000  # per second; about 10 ms

_NUMBERS = re.compile(r"0[xX][0-9a-fA-F]+|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


class _Group:
    __slots__ = ("count", "mask", "more", "samples", "source", "sources", "stream")

    def __init__(self, stream: Stream, source: Source, mask: str) -> None:
        self.stream: Stream = stream
        self.source = source
        self.mask = mask  # the line that started it, without its numbers
        self.sources: set[Source] = set()
        self.count = 0
        self.samples: dict[str, None] = {}
        self.more = False  # there are lines without a sample

    def merged(self) -> Merged:
        ranks = {source.rank for source in self.sources if source.rank is not None}
        return Merged(
            stream=self.stream,
            source=self.source,
            ranks=tuple(sorted(ranks)),
            procs=len(self.sources),
            lines=self.count,
            text=make_template(list(self.samples), more=self.more),
            similar=True,
        )


class _Lines:
    """The groups of one stream, by what finds them."""

    __slots__ = ("by_line", "by_mask", "near")

    def __init__(self) -> None:
        self.by_line: dict[bytes, _Group] = {}
        self.by_mask: dict[str, _Group] = {}
        self.near: deque[_Group] = deque(maxlen=_NEAR_GROUPS)


class Aggregator:
    """Merges similar lines, whoever printed them and however often.

    Example:
        >>> aggregator = Aggregator(window=3.0)
        >>> for rank in range(2):
        ...     aggregator.add(Source("a", "p", rank), 1, b"loss of %d" % rank, now=0.0)
        >>> [(merged.lines, merged.text) for merged in aggregator.take_due(3.0)]
        [(2, 'loss of <<0, 1>>')]

    Args:
        window: Seconds from the first line until all is given out.
    """

    __slots__ = (
        "_budget",
        "_budget_at",
        "_first_at",
        "_groups",
        "_now",
        "_streams",
        "_window",
    )

    def __init__(self, window: float = 3.0) -> None:
        self._window = window
        self._budget = _COMPARISONS
        self._budget_at = self._now = float("-inf")
        self._start()

    def _start(self) -> None:
        self._first_at: float | None = None
        self._groups: list[_Group] = []
        self._streams: dict[Stream, _Lines] = {1: _Lines(), 2: _Lines()}

    @property
    def window(self) -> float:
        """Seconds from the first line until all is given out; a change counts at once."""
        return self._window

    @window.setter
    def window(self, seconds: float) -> None:
        self._window = seconds

    @property
    def deadline(self) -> float | None:
        """When `take_due` will have something, None while nothing is collected."""
        if self._first_at is None or len(self._groups) >= _MAX_GROUPS:
            return self._first_at
        return self._first_at + self._window

    def add(self, source: Source, stream: Stream, line: bytes, now: float) -> None:
        """Take one line."""
        if self._first_at is None:
            self._first_at = now
        self._now = now
        lines = self._streams[stream]
        group = lines.by_line.get(line)
        if group is None:
            group = self._find(source, stream, line.decode("utf-8", "replace"), lines)
            if len(lines.by_line) < _MAX_EXACT:
                lines.by_line[line] = group
        group.count += 1
        group.sources.add(source)

    def take_due(self, now: float) -> list[Merged]:
        """Give out everything if the deadline has come."""
        deadline = self.deadline
        return [] if deadline is None or now < deadline else self.flush()

    def flush(self) -> list[Merged]:
        """Give out everything now, in the order in which the groups began."""
        groups = self._groups
        self._start()
        return [group.merged() for group in groups]

    def _find(self, source: Source, stream: Stream, text: str, lines: _Lines) -> _Group:
        mask = _NUMBERS.sub("0", text)
        group = lines.by_mask.get(mask)
        if group is None:
            group = self._find_near(mask, lines)
            if group is None:
                group = _Group(stream, source, mask)
                self._groups.append(group)
                lines.near.appendleft(group)
            lines.by_mask[mask] = group
        if len(group.samples) < _MAX_SAMPLES:
            group.samples[text] = None
        elif text not in group.samples:
            group.more = True
        return group

    def _find_near(self, mask: str, lines: _Lines) -> _Group | None:
        if len(self._groups) > _FEW_GROUPS:
            return None
        if self._now >= self._budget_at + 1.0:
            self._budget, self._budget_at = _COMPARISONS, self._now
        for group in lines.near:
            if self._budget <= 0:
                return None
            self._budget -= 1
            if resemble(group.mask, mask):
                return group
        return None
