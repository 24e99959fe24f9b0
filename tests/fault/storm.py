"""A storm: procs, agents, relays and links are killed at random while everybody talks.

What was sent and what was heard is written down, and compared when the storm is over: `violations`
says what should not have happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Ended", "History", "violations"]


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    ranks: tuple[int, ...]
    """Who was called."""
    error: str | None
    """Text of the error; None for a result."""
    value: object = None
    expected: object = None


@dataclass
class History:
    """What was seen of one storm."""

    ranks: int
    dead: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """Ranks that were killed, or lost with their host, and by which names an error names them."""
    sent: dict[str, list[tuple[int, Sequence[int]]]] = field(
        default_factory=dict[str, list[tuple[int, Sequence[int]]]]
    )
    """By surviving sender: numbers in the order in which they were sent, and to which ranks."""
    heard: dict[int, Mapping[str, Sequence[int]]] = field(
        default_factory=dict[int, Mapping[str, Sequence[int]]]
    )
    """By surviving rank: numbers in the order in which they were heard, by sender."""
    calls: list[Ended] = field(default_factory=list[Ended])
    hung: int = 0
    """Calls that did not end."""


def violations(history: History) -> list[str]:
    """What no storm may do; empty if all is well."""
    found = [f"{history.hung} calls did not end"] if history.hung else []
    found += _of_messages(history)
    found += _of_calls(history.calls, history.dead)
    return found


def _of_messages(history: History) -> Iterable[str]:
    for rank, heard in history.heard.items():
        for sender, numbers in heard.items():
            if sorted(set(numbers)) != list(numbers):
                yield f"rank {rank} heard {sender} twice or out of order: {_show(numbers)}"
        for sender, sent in history.sent.items():
            wanted = [number for number, ranks in sent if rank in ranks]
            got = list(heard.get(sender, ()))
            if got != wanted:
                missing = sorted(set(wanted) - set(got))
                extra = sorted(set(got) - set(wanted))
                yield (
                    f"rank {rank} heard {len(got)} of {len(wanted)} messages of {sender}; "
                    f"lost {_show(missing)}, never sent {_show(extra)}"
                )


def _of_calls(calls: Iterable[Ended], dead: Mapping[int, tuple[str, ...]]) -> Iterable[str]:
    for call in calls:
        if call.error is None:
            if call.value != call.expected:
                yield f"a call of {_show(call.ranks)} gave {call.value!r}, not {call.expected!r}"
            continue
        names = [name for rank in call.ranks for name in dead.get(rank, ())]
        if not names:
            yield f"a call of {_show(call.ranks)}, none of which died, failed: {call.error}"
        elif not any(name in call.error for name in names):
            yield f"an error names nobody who died of {_show(call.ranks)}: {call.error}"


def _show(numbers: Sequence[object]) -> str:
    text = ", ".join(map(str, numbers[:12]))
    return f"[{text}{', ...' if len(numbers) > 12 else ''}]"  # enough to see
