"""What goes down and up a tree of hosts: groups, casts, and batches of replies, as bytes.

A group says once who is called and through whom, so that a cast names it and carries nothing per
receiver but what differs. Replies that are equal, such as those of a method that returns nothing,
travel once, with the ranks that gave them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

__all__ = [
    "Batch",
    "Branch",
    "CastHead",
    "Numbers",
    "decode_batch",
    "encode_batch",
    "rank_runs",
]

_encode = msgspec.msgpack.Encoder().encode

Reply = tuple[int, "Sequence[bytes | memoryview]"]
"""Status and parts of a reply, as `danaus._runtime.outcome` has them."""

SHARED_BODY = 4096
"""Bytes up to which a reply of one part is compared with others, and packed beside them."""

MOST_PARTS = 60_000
"""Parts of a batch that are parts of its frame, which counts them in 16 bits. Of more, the rest is
packed."""


class Branch(msgspec.Struct, array_like=True, frozen=True):
    """A host of a group, and the hosts below it."""

    host: str
    """Address of its agent."""
    ranks: list[int]
    """Ranks that are called on it, in the mesh that the group is of."""
    procs: list[str]
    """Process of each."""
    below: list[Branch]


class Numbers(msgspec.Struct, array_like=True, frozen=True):
    """Numbers of one cast's messages: one for most receivers, runs for the others."""

    usual: int
    runs: list[tuple[int, int, int]] = []
    """(first rank, count of ranks, number), by ascending ranks."""

    def of(self, rank: int) -> int:
        """Number of the message to a rank."""
        runs = self.runs
        if runs:
            first, count, number = runs[max(0, bisect_right(runs, (rank, 1 << 62)) - 1)]
            if first <= rank < first + count:
                return number
        return self.usual

    @staticmethod
    def with_exceptions(usual: int, exceptions: Iterable[tuple[int, int]]) -> Numbers:
        """From (rank, number) of each receiver that has another number.

        Example:
            >>> Numbers.with_exceptions(7, [(4, 9), (3, 9), (8, 1)])
            Numbers(usual=7, runs=[(3, 2, 9), (8, 1, 1)])
        """
        runs: list[tuple[int, int, int]] = []
        for rank, number in sorted(exceptions):
            if runs:
                first, count, known = runs[-1]
                if number == known and rank == first + count:
                    runs[-1] = (first, count + 1, known)
                    continue
            runs.append((rank, 1, number))
        return Numbers(usual, runs)


class CastHead(msgspec.Struct, array_like=True, frozen=True):
    """Routing of a cast, from one host to the next."""

    group: str
    cast: str
    depth: int
    """Of the receiving host in the tree, in hops from the root."""
    root: str
    """The sending process."""
    actor: str
    source_actor: str
    method: str
    port: int
    """Of the root, for the replies; -1 where none are wanted."""
    extent: bytes
    numbers: Numbers
    combine: bytes = b""
    """A pickled function that combines two replies into one; empty where all are wanted."""


class Batch(NamedTuple):
    """Replies on their way up: an `Emit` of the `GatherNode` below."""

    cast: str
    number: int
    since: int
    complete: bool
    entries: Sequence[tuple[int, Reply]]
    lost: Sequence[int]


def rank_runs(ranks: Iterable[int]) -> list[tuple[int, int]]:
    """Encode ranks as (first, count) runs, in their order.

    Example:
        >>> rank_runs([4, 5, 6, 9])
        [(4, 3), (9, 1)]
    """
    runs: list[tuple[int, int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][0] + runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((rank, 1))
    return runs


class _Packed(msgspec.Struct, array_like=True):
    """Part 0 of a batch."""

    lost: list[tuple[int, int]]
    small: list[tuple[int, bytes, list[tuple[int, int]]]]
    """(status, body, runs of the ranks that gave it)."""
    whole: list[tuple[int, int, int]]
    """(rank, status, count of parts) of those whose parts are parts of the frame."""
    packed: list[tuple[int, int, list[bytes]]]
    """(rank, status, parts) of those that have no room there."""


_decode_head = msgspec.msgpack.Decoder(tuple[str, int, int, bool]).decode
_decode_packed = msgspec.msgpack.Decoder(_Packed).decode


def encode_batch(batch: Batch) -> tuple[bytes, list[bytes | memoryview]]:
    """The routing and the parts of a frame that carries a batch up."""
    shared: dict[tuple[int, bytes], list[int]] = {}
    packed = _Packed(rank_runs(batch.lost), [], [], [])
    parts: list[bytes | memoryview] = [b""]
    for rank, (status, body) in batch.entries:
        if len(body) == 1 and len(body[0]) <= SHARED_BODY:
            shared.setdefault((status, bytes(body[0])), []).append(rank)
        elif len(parts) + len(body) <= MOST_PARTS:
            packed.whole.append((rank, status, len(body)))
            parts.extend(body)
        else:
            packed.packed.append((rank, status, [bytes(part) for part in body]))
    packed.small = [
        (status, body, rank_runs(sorted(ranks))) for (status, body), ranks in shared.items()
    ]
    parts[0] = _encode(packed)
    return _encode((batch.cast, batch.number, batch.since, batch.complete)), parts


def decode_batch(routing: bytes, parts: Sequence[bytes | memoryview]) -> Batch:
    """What `encode_batch` was given; its equal replies are one object.

    Raises:
        msgspec.MsgspecError: It is no batch.
        ValueError: Parts are missing.
    """
    cast, number, since, complete = _decode_head(routing)
    packed = _decode_packed(parts[0])
    entries: list[tuple[int, Reply]] = []
    for status, body, runs in packed.small:
        reply: Reply = (status, (body,))
        for first, count in runs:
            entries.extend((rank, reply) for rank in range(first, first + count))
    at = 1
    for rank, status, count in packed.whole:
        if at + count > len(parts):
            raise ValueError(f"a batch of {cast} has {len(parts)} parts, and names more")
        entries.append((rank, (status, tuple(parts[at : at + count]))))
        at += count
    entries.extend((rank, (status, body)) for rank, status, body in packed.packed)
    lost = [rank for first, count in packed.lost for rank in range(first, first + count)]
    return Batch(cast, number, since, complete, entries, lost)
