"""In which order do threads pass: `Sequencer`, `Gate` and `wait_until`, instead of sleeping.

A race is tested by deciding it. `Sequencer` numbers blocks across threads and runs them in that
order; `Gate` holds a component at one point until the test lets it go; `wait_until` waits for a
condition that nothing announces. Each wait has a limit, and passing it is an error that says which
side never came.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

__all__ = ["PATIENCE", "Gate", "Sequencer", "SequencerBroken", "wait_until"]

PATIENCE = 5.0
"""Seconds that each wait here lasts at most unless told otherwise: ample on a loaded machine."""

_POLL = 0.002
"""Seconds between two looks at a condition: below what a test notices, above what a core does."""


class SequencerBroken(RuntimeError):
    """A block failed or never came, so the blocks behind it cannot run in their order."""


class Sequencer:
    """Runs numbered blocks of several threads in the order of their numbers.

    Each number from 0 on is used once. A block that raises, or waits in vain, breaks the sequencer:
    all who wait then raise `SequencerBroken` instead of hanging. Thread-safe.

    Args:
        patience: Seconds that a block waits for its turn.

    Example:
        ::

            step = Sequencer()
            # in one thread           # in another
            with step(0):             with step(1):
                send()                    receive()
            with step(2):
                close()
    """

    def __init__(self, *, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._turn = threading.Condition()
        self._next = 0
        self._taken: set[int] = set()
        self._broken: str | None = None

    @contextmanager
    def __call__(self, number: int) -> Generator[None]:
        """Wait until all blocks below ``number`` have ended, then run the body.

        Args:
            number: Place of the block, 0 or more.

        Raises:
            ValueError: The number has been used.
            SequencerBroken: An earlier block raised, or did not end within the patience.
        """
        self._wait_turn(number)
        try:
            yield
        except BaseException as error:
            with self._turn:
                self._break(f"block {number} raised {error!r}")
            raise
        with self._turn:
            self._next += 1
            self._turn.notify_all()

    def _wait_turn(self, number: int) -> None:
        with self._turn:
            if number in self._taken or number < 0:
                raise ValueError(
                    f"sequencer: block {number} exists. Number each block once, from 0."
                )
            self._taken.add(number)
            come = self._turn.wait_for(
                lambda: self._next == number or self._broken is not None, self._patience
            )
            if not come:
                self._break(f"block {number} waited {self._patience} s for block {self._next}")
            if self._broken is not None:
                raise SequencerBroken(f"sequencer: {self._broken}; block {number} cannot run.")

    def _break(self, why: str) -> None:
        if self._broken is None:
            self._broken = why
        self._turn.notify_all()


class Gate:
    """Holds whoever comes to one point until the test has looked and lets it go.

    Give the gate itself to the component as the hook to call, or call `wait` there. Leaving the
    ``with`` block opens the gate, so a failed test leaves no thread behind. Thread-safe.

    Args:
        name: What the point is, for the error text.
        patience: Seconds that either side waits.

    Example:
        ::

            with Gate("before the write") as gate:
                thread = start(Writer(before_write=gate))
                gate.wait_entered()
                ...  # the writer stands just before its write
            thread.join()
    """

    def __init__(self, name: str = "gate", *, patience: float = PATIENCE) -> None:
        self._name = name
        self._patience = patience
        self._entered = threading.Event()
        self._opened = threading.Event()

    def __call__(self, *_args: object, **_kwargs: object) -> None:
        """Do what `wait` does; the arguments that a hook is given are ignored."""
        self.wait()

    def wait(self) -> None:
        """Report that the point is reached, and stay until the gate opens.

        Raises:
            TimeoutError: The test did not open the gate within the patience.
        """
        self._entered.set()
        if not self._opened.wait(self._patience):
            raise TimeoutError(f"gate {self._name!r}: not opened within {self._patience} s.")

    def wait_entered(self) -> None:
        """Wait until somebody stands at the gate, or has passed it.

        Raises:
            TimeoutError: Nobody came within the patience.
        """
        if not self._entered.wait(self._patience):
            raise TimeoutError(f"gate {self._name!r}: nobody came within {self._patience} s.")

    @property
    def entered(self) -> bool:
        """Whether anybody has come to the gate."""
        return self._entered.is_set()

    def open(self) -> None:
        """Let all pass, now and later."""
        self._opened.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.open()


def wait_until(
    condition: Callable[[], object], *, timeout: float = PATIENCE, what: str = "the condition"
) -> None:
    """Wait until ``condition()`` is true, looking every few milliseconds.

    For facts of the world that nothing announces, such as a process that ends. Where there is an
    event, a future or a `Gate`, wait for that.

    Args:
        condition: Cheap and free of effects.
        timeout: Seconds to wait at most; ``0`` looks once.
        what: The condition in words, for the error text.

    Raises:
        TimeoutError: The condition was still false after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout} s in vain for {what}.")
        time.sleep(_POLL)
