"""What is a line of output, and whose is it?

These are the values that pass between the modules of this package. They are tuples, because
hundreds of thousands of them may be made in a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = ["STDERR", "STDOUT", "Entry", "Merged", "Merger", "Pieces", "Source", "Stream"]

Stream: TypeAlias = Literal[1, 2]
"""A standard stream, by its descriptor."""

STDOUT: Literal[1] = 1
STDERR: Literal[2] = 2


class Source(NamedTuple):
    """The process that printed."""

    host: str
    """Name of its host."""
    proc: str
    """Name of the process on that host."""
    rank: int | None
    """Its rank in its mesh, None if it has none."""
    mesh: str = ""
    """Name that the user gave to its mesh; empty if none was given."""


class Pieces(NamedTuple):
    """Some lines and progress updates of one stream, as a `LineSplitter` gave them."""

    source: Source
    stream: Stream
    pieces: Sequence[bytes]


class Merged(NamedTuple):
    """One text that stands for one or more lines."""

    stream: Stream
    source: Source
    """Who printed it first."""
    ranks: tuple[int, ...]
    """All ranks that printed it, ascending."""
    procs: int
    """How many processes printed it."""
    lines: int
    """How many lines it stands for."""
    text: str
    """The line, or the template of similar lines."""
    similar: bool
    """Whether lines may have been merged that were not the same."""


Entry: TypeAlias = Pieces | Merged
"""What a renderer shows."""


class Merger(Protocol):
    """Collects lines for a while, and gives them out merged.

    Implementations differ in what they merge. None loses a line: the counts of what it gives out
    add up to the number of lines that it took. Not thread-safe.
    """

    @property
    def window(self) -> float:
        """Seconds from the first line that is collected until all are given out."""
        ...

    @property
    def deadline(self) -> float | None:
        """When `take_due` will have something, None while nothing is collected."""
        ...

    def add(self, source: Source, stream: Stream, line: bytes, now: float) -> None:
        """Take one line."""
        ...

    def take_due(self, now: float) -> list[Merged]:
        """Give out everything if the deadline has come."""
        ...

    def flush(self) -> list[Merged]:
        """Give out everything now."""
        ...
