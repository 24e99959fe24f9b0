"""The standard streams of the client, as they are at the moment of writing.

A program may replace `sys.stdout` at any time (a notebook, `contextlib.redirect_stdout`, a test):
nothing of it is remembered here.
"""

from __future__ import annotations

import os
import sys
from shutil import get_terminal_size
from typing import Literal, TextIO, cast

__all__ = ["StandardStream"]


class StandardStream:
    """A standard stream of this process; a `Sink` of the renderer.

    Args:
        name: Which attribute of `sys` it is.
    """

    __slots__ = ("_name",)

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name

    @property
    def terminal(self) -> bool:
        """Whether it is a terminal that can rewrite a row."""
        return self._is_terminal() and os.environ.get("TERM") != "dumb"

    @property
    def colour(self) -> bool:
        """Whether it is a terminal, and the user has not set NO_COLOR (no-color.org)."""
        return self.terminal and not os.environ.get("NO_COLOR")

    @property
    def columns(self) -> int:
        """Width of the terminal, in characters; $COLUMNS or 80 if it does not tell."""
        stream = self._stream()
        try:
            columns = 0 if stream is None else os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            columns = 0
        return columns or get_terminal_size().columns

    def write(self, text: str) -> None:
        """Write and flush.

        Characters that the stream cannot encode are written as escapes. A stream that is closed,
        or whose reader is gone, takes nothing: the files hold the output of every process.
        """
        stream = self._stream()
        if stream is None:
            return
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                encoding = stream.encoding or "ascii"
                stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except (OSError, ValueError):
            return

    def _stream(self) -> TextIO | None:
        # sys.stdout is None where there is no console, whatever its declaration says.
        return cast("TextIO | None", getattr(sys, self._name, None))

    def _is_terminal(self) -> bool:
        stream = self._stream()
        try:
            return stream is not None and stream.isatty()
        except (OSError, ValueError, AttributeError):
            return False
