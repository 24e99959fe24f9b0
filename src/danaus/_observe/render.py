r"""Which text goes to which stream of the client?

`LogRenderer` writes whole lines only: everything that came together for one stream is one write,
so nothing that the ranks print is torn, neither by other ranks nor by the client's own prints.

On a terminal, progress bars share one row at the bottom, which is rewritten in place and given way
whenever lines are printed. Elsewhere the state of a bar is a line like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol
from unicodedata import east_asian_width

from danaus._observe.lines import is_update
from danaus._observe.progress import ProgressRow
from danaus._observe.record import STDERR, STDOUT, Entry, Merged, Pieces, Source, Stream

__all__ = ["LogRenderer", "Sink", "compact_ranks"]

_MAX_RANGES = 8  # ranges of ranks in a prefix, then "..."
_YELLOW, _PLAIN = "\x1b[33m", "\x1b[0m"
_ERASE_ROW = "\r\x1b[K"

# What would move the cursor or switch the alphabet of a terminal that belongs to all ranks: control
# sequences other than colours, strings (titles, links), other escapes, control characters.
_UNSAFE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-ln-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-Z\\`-~]"
    r"|[\x00-\x06\x0b-\x1a\x1c-\x1f\x7f-\x9f]"
)


class Sink(Protocol):
    """Where text goes: one of the client's standard streams."""

    @property
    def terminal(self) -> bool:
        """Whether a person sees it on a terminal, where a row can be rewritten."""
        ...

    @property
    def colour(self) -> bool:
        """Whether it may be coloured."""
        ...

    @property
    def columns(self) -> int:
        """Width of the terminal, in characters."""
        ...

    def write(self, text: str) -> None:
        """Write and flush the text."""
        ...


class LogRenderer:
    """Shows lines, merged lines and progress of many processes. Not thread-safe.

    Args:
        stdout: Gets what the processes wrote to their standard output.
        stderr: Gets what they wrote to their standard error.
        prefix_with_rank: Whether a line begins with its rank, after host and process.
    """

    def __init__(self, stdout: Sink, stderr: Sink, *, prefix_with_rank: bool = True) -> None:
        self.prefix_with_rank = prefix_with_rank
        self._sinks: dict[Stream, Sink] = {STDOUT: stdout, STDERR: stderr}
        self._row = ProgressRow()
        self._row_stream: Stream | None = None  # where a row is on the screen now
        self._runs: list[tuple[Stream, list[str]]] = []

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to show, None while it has not."""
        return self._row.deadline

    def rewrites(self, stream: Stream) -> bool:
        """Tell whether progress of a stream is shown in a row that is rewritten in place."""
        return self._sinks[stream].terminal

    def write(self, entries: Iterable[Entry], now: float) -> None:
        """Show what came, and progress that is due.

        Args:
            entries: Lines, progress updates and merged lines, in the order to show them.
            now: Seconds.
        """
        for entry in entries:
            if isinstance(entry, Merged):
                self._emit(entry.stream, self._clean(entry.stream, self._merged(entry)) + "\n")
            else:
                self._pieces(entry, now)
        self._write_runs(now)

    def tick(self, now: float) -> None:
        """Show progress that is due."""
        self.write((), now)

    def close(self, now: float) -> None:
        """Show the last state of every bar as a line, and leave the terminal in order."""
        for last in self._row.flush():
            self._lines(last)
        self._write_runs(now)

    def _pieces(self, entry: Pieces, now: float) -> None:
        source, stream, pieces = entry
        if not self.rewrites(stream):
            self._lines(entry)
            return
        lines: list[bytes] = []
        for piece in pieces:
            if is_update(piece):
                self._row.add(source, stream, piece, now)
            else:
                lines.append(piece)
                self._row.settle(source, stream)
        self._lines(Pieces(source, stream, lines))

    def _lines(self, entry: Pieces) -> None:
        source, stream, lines = entry
        if not lines:
            return
        prefix = self._prefix(source).encode()
        joined = prefix + (b"\n" + prefix).join(lines) + b"\n"
        text = joined.replace(b"\r", b"").decode("utf-8", "replace")  # only updates have a "\r"
        self._emit(stream, self._clean(stream, text))

    def _clean(self, stream: Stream, text: str) -> str:
        """Take from a text whatever would disorder a terminal beyond its own lines."""
        if not self._sinks[stream].terminal:
            return text
        text = _UNSAFE.sub(_harmless, text)
        if "\x1b" in text:  # colours, which must not reach the lines of others
            return "\n".join(
                line + _PLAIN if "\x1b" in line and not line.endswith(_PLAIN) else line
                for line in text.split("\n")
            )
        return text

    def _merged(self, entry: Merged) -> str:
        if entry.lines == 1:
            return self._prefix(entry.source) + entry.text
        if entry.similar:
            label = f"[{entry.lines} similar log lines]"
            if self._sinks[entry.stream].colour:
                label = f"{_YELLOW}{label}{_PLAIN}"
            return f"{label} {entry.text}"
        ranks = f"[{compact_ranks(entry.ranks)}] " if self.prefix_with_rank and entry.ranks else ""
        mesh = f" of {entry.source.mesh}" if entry.source.mesh else ""
        return f"[{entry.procs} procs{mesh}] {ranks}{entry.text}"

    def _prefix(self, source: Source) -> str:
        rank = "" if source.rank is None or not self.prefix_with_rank else f"[{source.rank}] "
        mesh = f"{source.mesh} " if source.mesh else ""
        return f"[{source.host} {mesh}{source.proc}] {rank}"

    def _emit(self, stream: Stream, text: str) -> None:
        if self._runs and self._runs[-1][0] == stream:
            self._runs[-1][1].append(text)
        else:
            self._runs.append((stream, [text]))

    def _write_runs(self, now: float) -> None:
        printed, self._runs = self._runs, []
        due = self._row.deadline is not None and now >= self._row.deadline
        if not due and not any(self._sinks[stream].terminal for stream, _ in printed):
            self._flush(printed)
            return
        if self._row_stream is not None:
            self._emit(self._row_stream, _ERASE_ROW)
            self._row_stream = None
        for stream, texts in printed:
            self._emit(stream, "".join(texts))
        bar = self._row.draw(now)
        if bar is not None:
            (source, self._row_stream, (text,)), others = bar
            self._emit(self._row_stream, self._row_text(source, self._row_stream, text, others))
        runs, self._runs = self._runs, []
        self._flush(runs)

    def _flush(self, runs: list[tuple[Stream, list[str]]]) -> None:
        for stream, texts in runs:
            self._sinks[stream].write("".join(texts))

    def _row_text(self, source: Source, stream: Stream, text: bytes, others: int) -> str:
        suffix = f" (and {others} more)" if others else ""
        shown = _UNSAFE.sub("", self._prefix(source) + text.decode("utf-8", "replace"))
        return _fit(shown, self._sinks[stream].columns - 1 - len(suffix)) + suffix


def compact_ranks(ranks: Sequence[int]) -> str:
    """Write ascending ranks as ranges.

    Example:
        >>> compact_ranks([0, 1, 2, 5])
        '0-2,5'
    """
    ranges: list[tuple[int, int]] = []
    for rank in ranks:
        if ranges and rank <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], rank)
        else:
            ranges.append((rank, rank))
    shown = [f"{low}-{high}" if high > low else f"{low}" for low, high in ranges[:_MAX_RANGES]]
    return ",".join([*shown, "..."] if len(ranges) > _MAX_RANGES else shown)


def _harmless(match: re.Match[str]) -> str:
    found = match[0]
    # A control character is shown by its picture (U+2400 and on); a sequence is left out.
    return chr(0x2400 + ord(found)) if len(found) == 1 and found < " " else ""


def _fit(text: str, columns: int) -> str:
    """Cut a text to a width; what would wrap could not be erased. Colours are taken from it."""
    text = re.sub(r"\x1b\[[0-9;:]*m", "", text).replace("\x1b", "").replace("\t", " ")
    if text.isascii():
        return text[: max(columns, 0)]
    for position, char in enumerate(text):
        columns -= 2 if east_asian_width(char) in "WF" else 1
        if columns < 0:
            return text[:position]
    return text
