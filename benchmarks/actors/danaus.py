"""The probe as an actor of Danaus."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.actors.payload import sum_of_pages
from danaus.actor import Actor, endpoint

__all__ = ["Probe"]


class Probe(Actor):
    """Answers what the scenarios ask."""

    def __init__(self) -> None:
        self._noted = 0

    @endpoint
    def echo(self, value: Any) -> Any:
        """Return the argument."""
        return value

    @endpoint
    def note(self, _value: int) -> None:
        """Count the message."""
        self._noted += 1

    @endpoint
    def noted(self) -> int:
        """Return the number of counted messages."""
        return self._noted

    @endpoint
    def pid(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    @endpoint
    def sample(self, payload: Any) -> int:
        """Return the sum of one byte of each page."""
        return sum_of_pages(payload)

    @endpoint
    def block(self, path: str) -> None:
        """Make the file, then stay."""
        Path(path).touch()
        time.sleep(3600)
