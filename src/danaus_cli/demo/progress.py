"""A progress bar: one line that redraws itself on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

__all__ = ["ProgressBar", "Style", "sparkline"]

#: Least time between two drawings on a terminal, in seconds.
REDRAW_S = 0.1
#: Least and most cells of the bar itself; with less room only the figures are shown.
LEAST_CELLS, MOST_CELLS = 5, 40
#: How many plain lines are written where there is no terminal.
PLAIN_LINES = 10
#: What they begin with: they stand below the other lines' text.
PLAIN_INDENT = " " * 12

BLOCKS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
ASCII_LEVELS = "_.-=+*#@"


class Style:
    """What a stream can show: colours, block characters, a line that is drawn over.

    Args:
        stream: Where output goes.
        environ: Environment variables; ``NO_COLOR`` turns colours off (https://no-color.org),
            ``TERM=dumb`` turns off redrawing as well.

    Attributes:
        live: Whether a line can be drawn over.
        color: Whether colours are wanted and possible.
        blocks: Whether block characters can be written.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self.live = stream.isatty() and environ.get("TERM") != "dumb"
        self.color = self.live and not environ.get("NO_COLOR")
        self.blocks = _can_write(stream, BLOCKS + LEVELS + "│")

    def dim(self, text: str) -> str:
        """Text that stands back."""
        return self._paint("2", text)

    def bold(self, text: str) -> str:
        """Text that stands out."""
        return self._paint("1", text)

    def good(self, text: str) -> str:
        """Text that tells of success."""
        return self._paint("32", text)

    def bad(self, text: str) -> str:
        """Text that tells of failure."""
        return self._paint("31", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color else text


class ProgressBar:
    """Shows how far a run is, its loss, its speed, and the time that is left.

    The caller passes the time in, so that a test needs no clock.

    Args:
        stream: Where to draw; flushed after each drawing.
        style: What the stream can show.
        total: Steps of the whole run.
        now: The time at which it starts, in seconds of any clock.
    """

    def __init__(self, stream: TextIO, style: Style, total: int, *, now: float) -> None:
        self.stream = stream
        self.style = style
        self.total = total
        self.began = now
        self.drawn = -REDRAW_S
        self.plain_lines = 0
        self.width = 0

    def show(self, done: int, *, loss: float, tokens: int, now: float) -> None:
        """Draw the state, unless the last drawing is too fresh.

        Args:
            done: Steps that are done.
            loss: In nats a character.
            tokens: Characters that were learned from so far.
            now: The time.
        """
        elapsed = now - self.began
        if self.style.live:
            if elapsed - self.drawn < REDRAW_S and done < self.total:
                return
            self.drawn = elapsed
            self._redraw(self._line(done, loss, tokens, elapsed))
        elif done * PLAIN_LINES // self.total > self.plain_lines:
            self.plain_lines = done * PLAIN_LINES // self.total
            self._write(f"{PLAIN_INDENT}{self._facts(done, loss, tokens, elapsed)}\n")

    def say(self, text: str) -> None:
        """Write a whole line; the bar stays below it."""
        if self.style.live:
            self._write("\r\x1b[K")
        self._write(text + "\n")
        self.drawn = -REDRAW_S

    def finish(self) -> None:
        """Leave the bar as it is and go to the next line."""
        if self.style.live and self.width:
            self._write("\n")
            self.width = 0

    def _line(self, done: int, loss: float, tokens: int, elapsed: float) -> str:
        facts = self._facts(done, loss, tokens, elapsed)
        columns = shutil.get_terminal_size().columns
        room = min(MOST_CELLS, columns - len(facts) - 5)
        if room < LEAST_CELLS:
            return facts[: columns - 1]
        return f"  {self.style.good(self._bar(done, room))}  {facts}"

    def _bar(self, done: int, cells: int) -> str:
        if not self.style.blocks:
            full = cells * done // self.total
            return "#" * full + "." * (cells - full)
        eighths = 8 * cells * done // self.total
        full, rest = divmod(eighths, 8)
        return ("█" * full + (BLOCKS[rest] if full < cells else "")).ljust(cells)

    def _facts(self, done: int, loss: float, tokens: int, elapsed: float) -> str:
        speed = tokens / elapsed if elapsed > 0 else 0.0
        left = elapsed * (self.total - done) / done if done else 0.0
        return (
            f"{done:{len(str(self.total))}}/{self.total} steps  loss {loss:.3f}"
            f"  {speed / 1000:4.0f}k tokens/s  {left:3.0f} s left"
        )

    def _redraw(self, line: str) -> None:
        self.width = len(line)
        self._write(f"\r\x1b[K{line}")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def sparkline(values: list[float], width: int, *, blocks: bool) -> str:
    """A curve in one line of text: each character is as high as the mean of its part of values."""
    if not values:
        return ""
    width = min(width, len(values))
    parts = [
        values[len(values) * i // width : len(values) * (i + 1) // width] for i in range(width)
    ]
    means = [sum(part) / len(part) for part in parts]
    lowest, highest = min(means), max(means)
    levels = LEVELS if blocks else ASCII_LEVELS
    scale = (len(levels) - 1) / (highest - lowest) if highest > lowest else 0.0
    return "".join(levels[round((mean - lowest) * scale)] for mean in means)


def _can_write(stream: TextIO, characters: str) -> bool:
    try:
        characters.encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
