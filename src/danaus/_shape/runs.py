"""How a long list of integers becomes a short one: as arithmetic runs.

A message to many ranks carries the ranks and one sequence number for each. Ranks of a slice
are a few arithmetic progressions, and sequence numbers of ranks that are always addressed
together are equal, so both shrink to a handful of ``(start, step, count)`` triples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import index as to_int

__all__ = ["Runs", "arithmetic_runs"]

#: Start, step and number of values. The step of a single value is 0.
Run = tuple[int, int, int]

_INTS_PER_RUN = 3


def arithmetic_runs(values: Iterable[int]) -> Iterator[Run]:
    """Cut ``values`` into arithmetic progressions, greedily and in order.

    Cost: one pass, constant memory.
    """
    if isinstance(values, range):
        if values:
            yield _run_of_range(values)
        return
    start = step = expected = count = 0
    for value in values:
        if count > 1 and value == expected:
            count += 1
            expected += step
        elif count == 1:
            step = value - start
            expected = value + step
            count = 2
        else:
            if count:
                yield start, step, count
            start, step, count = value, 0, 1
    if count:
        yield start, step, count


class Runs:
    """An immutable list of integers, kept and sent as ``(start, step, count)`` runs.

    Order and repetitions are kept. Two are equal when they are encoded alike, which two
    made by `from_values` from equal lists always are.

    Example:
        >>> runs = Runs.from_values([0, 1, 2, 3, 7, 7, 7])
        >>> runs.to_tuple()
        (0, 1, 4, 7, 0, 3)
        >>> list(runs), len(runs), 7 in runs, runs[4]
        ([0, 1, 2, 3, 7, 7, 7], 7, True, 7)
    """

    __slots__ = ("_length", "_runs")

    _runs: tuple[Run, ...]
    _length: int

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        """Keep ``runs``, triples with a count of at least 1."""
        self._runs = tuple(runs)
        self._length = sum([count for _, _, count in self._runs])

    @classmethod
    def from_values(cls, values: Iterable[int]) -> Runs:
        """Encode ``values`` in their order; a `range` costs nothing."""
        return cls(arithmetic_runs(values))

    @classmethod
    def from_ranges(cls, ranges: Iterable[range]) -> Runs:
        """Encode ranges one after the other, one run each (see `NDSlice.rows`)."""
        return cls([_run_of_range(values) for values in ranges if values])

    @classmethod
    def from_tuple(cls, encoded: Sequence[int], *, limit: int | None = None) -> Runs:
        """Decode what `to_tuple` gave; the input may come from a stranger.

        Args:
            encoded: Start, step, count of the first run, then of the next.
            limit: Most values to accept in all, ``None`` for any number. A short input can
                stand for a list that would fill the memory.

        Raises:
            TypeError: An element is not an int.
            ValueError: The length is no multiple of three, a count is below 1, or there are
                more than ``limit`` values.
        """
        if len(encoded) % _INTS_PER_RUN:
            raise ValueError(f"runs need three integers each, got {len(encoded)} in all")
        for number in encoded:
            if type(number) is not int:
                raise TypeError(f"runs are made of integers, got {type(number).__name__}")
        counts = encoded[2::3]
        if counts and min(counts) < 1:
            raise ValueError(f"a run has at least 1 value, got {min(counts)}")
        if limit is not None and sum(counts) > limit:
            raise ValueError(f"runs stand for {sum(counts)} values, at most {limit} are allowed")
        return cls(zip(encoded[0::3], encoded[1::3], counts, strict=True))

    def to_tuple(self) -> tuple[int, ...]:
        """Return the encoding, a flat tuple of ints: start, step, count of each run."""
        return tuple(chain.from_iterable(self._runs))

    def index(self, value: int) -> int:
        """Return the first position of ``value``.

        Raises:
            ValueError: It does not occur.
        """
        before = 0
        for start, step, count in self._runs:
            position = _position_in_run(value, start, step, count)
            if position >= 0:
                return before + position
            before += count
        raise ValueError(f"value {value} not in {self!r}")

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(
            range(start, start + step * count, step) if step else repeat(start, count)
            for start, step, count in self._runs
        )

    def __getitem__(self, position: int) -> int:
        rest = to_int(position)
        if rest < 0:
            rest += self._length
        if not 0 <= rest < self._length:
            raise IndexError(f"position {position} out of range (len={self._length})")
        runs = iter(self._runs)
        start, step, count = next(runs)
        while rest >= count:
            rest -= count
            start, step, count = next(runs)
        return start + step * rest

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and any(
            _position_in_run(value, *run) >= 0 for run in self._runs
        )

    def __eq__(self, other: object) -> bool:
        return self._runs == other._runs if isinstance(other, Runs) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._runs)

    def __reduce__(self) -> tuple[type[Runs], tuple[tuple[Run, ...]]]:
        return Runs, (self._runs,)

    def __repr__(self) -> str:
        return f"<Runs of {self._length} values in {len(self._runs)} runs>"


def _run_of_range(values: range) -> Run:
    return values.start, values.step if len(values) > 1 else 0, len(values)


def _position_in_run(value: int, start: int, step: int, count: int) -> int:
    """Return where ``value`` first stands in the run, -1 if it does not."""
    if not step:
        return 0 if value == start else -1
    position, rest = divmod(value - start, step)
    return position if not rest and 0 <= position < count else -1
