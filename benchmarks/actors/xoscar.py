"""The probe as an actor of xoscar."""

# pyright: reportAttributeAccessIssue=false
# It takes `import xoscar` for this file.

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import xoscar

from benchmarks.actors.payload import sum_of_pages

__all__ = ["Probe"]


class Probe(xoscar.Actor):
    """Answers what the scenarios ask."""

    def __init__(self) -> None:
        super().__init__()
        self._noted = 0

    def echo(self, value: Any) -> Any:
        """Return the argument."""
        return value

    def note(self, _value: int) -> None:
        """Count the message."""
        self._noted += 1

    def noted(self) -> int:
        """Return the number of counted messages."""
        return self._noted

    def pid(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    def sample(self, payload: Any) -> int:
        """Return the sum of one byte of each page."""
        return sum_of_pages(payload)

    def block(self, path: str) -> None:
        """Make the file, then stay."""
        Path(path).touch()
        time.sleep(3600)
