"""The small interface that each measured system is driven through.

Scenarios are written once against it. An adapter uses its system in the way that the system's own
documentation recommends, the fastest where there are several, so that a ratio compares systems and
not adapters.
"""

from __future__ import annotations

import importlib.metadata
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

__all__ = ["Actors", "System", "Unsupported"]


class Unsupported(Exception):
    """Raised where a system has nothing to measure; the text says what is missing."""


class Actors(ABC):
    """A number of processes with one probe actor each; leaving the context ends them."""

    @abstractmethod
    def call_one(self, value: Any) -> Any:
        """Send ``value`` to the only actor and return its echo."""

    @abstractmethod
    def call_all(self, value: Any) -> None:
        """Send ``value`` to all actors and wait for the replies of all."""

    @abstractmethod
    def pipeline(self, count: int) -> None:
        """Make ``count`` calls to the only actor without waiting, then wait for all."""

    @abstractmethod
    def broadcast(self, count: int) -> None:
        """Send ``count`` messages without a reply to the only actor."""

    @abstractmethod
    def noted(self) -> int:
        """Ask the only actor how many broadcast messages it has handled."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Ask every actor for the id of its process."""

    @abstractmethod
    def sample_all(self, payload: Any) -> list[int]:
        """Send one payload to all actors; each returns the sum of every 4096th byte of it."""

    @abstractmethod
    def block(self, path: str) -> Callable[[], object]:
        """Call the only actor; the call makes the file ``path`` and never returns.

        Returns:
            A function that waits for the call's end and raises what the system reports.
        """

    @abstractmethod
    def stop(self) -> None:
        """End the processes and wait until they are gone."""

    def round_trips(self, repeat: int, value: Any) -> list[float]:
        """Make ``repeat`` calls one after the other; seconds of each."""
        call_one, clock = self.call_one, time.perf_counter
        samples: list[float] = []
        for _ in range(repeat):
            began = clock()
            call_one(value)
            samples.append(clock() - began)
        return samples

    def __enter__(self) -> Self:
        """Give the actors themselves."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, unless an error is on its way: then the process ends anyway.

        GeneratorExit is none: it comes from a scenario of which enough samples were taken.
        """
        if error is None or isinstance(error, GeneratorExit):
            self.stop()


class System(ABC):
    """An actor system. Constructing one starts nothing."""

    name: str
    distribution: str | None
    """The package that names the version, None when there is none."""
    import_name: str | None
    """The module that a user's script imports first, None when there is none."""

    @abstractmethod
    def start(self) -> None:
        """Bring the system up in this process, as far as a user's script has to."""

    @abstractmethod
    def spawn(self, count: int) -> Actors:
        """Start ``count`` new processes with one probe actor each, ready or not yet."""

    @abstractmethod
    def stop(self) -> None:
        """Bring the system down; all its processes end."""

    def use_class_of_main(self) -> None:
        """Take the probe's class from ``__main__`` from now on, so that it travels by value."""
        raise Unsupported(f"{self.name} takes no class that is defined in a script.")

    @property
    def version(self) -> str:
        """The installed version, an empty text when the system is no package."""
        return importlib.metadata.version(self.distribution) if self.distribution else ""
