"""What did this machine see before its invariant broke?

Every control-plane machine keeps a `History`: a short ring of the facts that it was told. It costs
one tuple per event and keeps sizes in place of payloads, so that it neither holds memory nor leaks
a user's data into an error text.
"""

from __future__ import annotations

from collections import deque

__all__ = ["HISTORY_LENGTH", "History", "InvariantBroken"]

HISTORY_LENGTH = 64
"""Facts kept per machine: a few screens of text, enough to see what led to a bad state."""


class InvariantBroken(AssertionError):
    """A machine found itself in a state that its rules exclude: our bug, never the user's.

    The state of the machine is not trustworthy afterwards; its driver ends what depends on it.

    Attributes:
        machine: Kind and name of the machine, such as ``session 'a->b'``.
        rule: The rule that does not hold, with the values that break it.
        story: The last facts that the machine was told, oldest first, one a line.
    """

    def __init__(self, machine: str, rule: str, story: str) -> None:
        super().__init__(machine, rule, story)
        self.machine = machine
        self.rule = rule
        self.story = story

    def __str__(self) -> str:
        return f"{self.machine}: broken invariant: {self.rule}. The last events were:\n{self.story}"


class History:
    """A ring of the last facts that one machine was told.

    Example:
        >>> history = History("inbox 'trainer'")
        >>> history.record(1.5, "Heard", "host-3")
        >>> print(history.story())
        1.500000 Heard host-3
    """

    __slots__ = ("_facts", "machine")

    def __init__(self, machine: str, length: int = HISTORY_LENGTH) -> None:
        self.machine = machine
        self._facts: deque[tuple[object, ...]] = deque(maxlen=length)

    def record(self, now: float, kind: str, *facts: object) -> None:
        """Keep one fact: its time in seconds, its kind, and small values (never a payload)."""
        self._facts.append((now, kind, *facts))

    def story(self) -> str:
        """Return the kept facts as text, oldest first, one a line."""
        return "\n".join(
            f"{now:.6f} {' '.join(str(part) for part in rest)}" for now, *rest in self._facts
        )

    def require(self, holds: bool, rule: str) -> None:  # noqa: FBT001  # reads as a sentence
        """Raise `InvariantBroken` with the story unless ``holds``."""
        if not holds:
            raise InvariantBroken(self.machine, rule, self.story())
