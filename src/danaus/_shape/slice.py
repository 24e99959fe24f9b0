"""Which integers a strided, multi-dimensional slice holds, and where each of them stands.

A slice is an offset and, for each axis, a size and a stride: the value at coordinates ``c``
is ``offset + sum(c[k] * strides[k])``. Values are enumerated in row-major order.

All slices are *nested*: sorted by stride, the stride of each axis of more than one value
is larger than the span of all axes below it. So no two coordinates share a value, and the
coordinates of a value are found by dividing by the strides, largest first. Slicing and
reshaping keep a slice nested. Axes that continue each other are merged before any
enumeration or look-up, so that the usual slice costs as much as a `range`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import prod
from operator import index as to_int
from typing import SupportsIndex, cast, overload

from danaus._shape.dimensions import check_sizes
from danaus._shape.runs import arithmetic_runs

__all__ = ["NDSlice", "Slice"]

#: Size and stride of an axis.
Axis = tuple[int, int]


class NDSlice:
    """An immutable strided slice of the integers from 0 up.

    Example:
        >>> s = NDSlice(offset=0, sizes=[2, 3], strides=[10, 1])
        >>> list(s)
        [0, 1, 2, 10, 11, 12]
        >>> s.index(11), s.coordinates(11), s[4]
        (4, [1, 1], 11)
    """

    __slots__ = ("_axes", "_length", "_offset", "_probes", "_sizes", "_strides")

    _offset: int
    _sizes: tuple[int, ...]
    _strides: tuple[int, ...]
    _length: int
    _axes: tuple[Axis, ...] | None  # merged axes, None until needed
    _probes: tuple[tuple[int, int, int], ...] | None  # see _find, None until needed

    def __init__(self, *, offset: int, sizes: Iterable[int], strides: Iterable[int]) -> None:
        """Make the slice; see the module for what offset, sizes and strides mean.

        Raises:
            TypeError: Something is not an integer.
            ValueError: Offset negative; a size or stride below 1; not as many strides as
                sizes; two coordinates would share a value or interleave (the strides are not
                nested); more than ``sys.maxsize`` values.
        """
        start = to_int(offset)
        if start < 0:
            raise ValueError(f"offset of a slice must not be negative, got {start}")
        checked_sizes = check_sizes(sizes)
        checked_strides = tuple(map(to_int, strides))
        _check_strides(checked_sizes, checked_strides)
        self._fill(start, checked_sizes, checked_strides)

    def _fill(self, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self._offset = offset
        self._sizes = sizes
        self._strides = strides
        self._length = prod(sizes)
        self._axes = None
        self._probes = None

    @classmethod
    def new_row_major(cls, sizes: Iterable[int]) -> NDSlice:
        """Return the slice of 0, 1, 2… with these ``sizes``.

        Raises:
            ValueError: A size is below 1.
        """
        checked = check_sizes(sizes)
        return cls(offset=0, sizes=checked, strides=_row_major_strides(checked))

    @staticmethod
    def from_list(ranks: Iterable[int]) -> list[NDSlice]:
        """Cover ``ranks`` by one-dimensional slices, in ascending order.

        A rank that occurs twice is covered twice.

        Raises:
            ValueError: A rank is negative.
        """
        slices: list[NDSlice] = []
        for start, step, count in arithmetic_runs(sorted(ranks)):
            # No slice holds a value twice: one slice for each repetition.
            repeats, size = (1, count) if step else (count, 1)
            part = NDSlice(offset=start, sizes=(size,), strides=(step or 1,))
            slices.extend([part] * repeats)
        return slices

    @property
    def offset(self) -> int:
        """The first value."""
        return self._offset

    @property
    def sizes(self) -> list[int]:
        """Number of values along each axis, a fresh list."""
        return list(self._sizes)

    @property
    def strides(self) -> list[int]:
        """Distance of neighbours along each axis, a fresh list."""
        return list(self._strides)

    @property
    def ndim(self) -> int:
        """Number of axes; 0 for the slice of one value without any axis."""
        return len(self._sizes)

    @property
    def is_dense(self) -> bool:
        """Whether the values are consecutive integers in ascending order."""
        axes = self._merged()
        return not axes or (len(axes) == 1 and axes[0][1] == 1)

    def get(self, index: int) -> int:
        """Return the value at position ``index`` in row-major order.

        Raises:
            OverflowError: ``index`` is negative.
            ValueError: ``index`` is beyond the end.
        """
        position = to_int(index)
        if position < 0:
            raise OverflowError(f"index into a slice must not be negative, got {position}")
        if position >= self._length:
            raise ValueError(f"index {position} out of range (len={self._length})")
        return self._value_at(position)

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[int, ...]: ...
    def __getitem__(self, key: int | slice) -> int | tuple[int, ...]:
        if isinstance(key, slice):
            return tuple(map(self._value_at, range(self._length)[key]))
        position = to_int(key)
        if position < 0:
            raise TypeError(f"index into a slice must not be negative, got {position}")
        if position >= self._length:
            raise IndexError(f"index {position} out of range (len={self._length})")
        return self._value_at(position)

    def nditem(self, coordinates: Sequence[int]) -> int:
        """Return the value at ``coordinates``, one for each axis.

        Raises:
            IndexError: Their number is wrong or one is out of range.
        """
        if len(coordinates) != len(self._sizes):
            raise IndexError(
                f"invalid dims: expected {len(self._sizes)} coordinates, got {len(coordinates)}"
            )
        value = self._offset
        for axis, coordinate in enumerate(coordinates):
            if not 0 <= coordinate < self._sizes[axis]:
                raise IndexError(
                    f"coordinate {coordinate} out of range along axis {axis} "
                    f"(size {self._sizes[axis]})"
                )
            value += coordinate * self._strides[axis]
        return value

    def index(self, value: int) -> int:
        """Return the row-major position of ``value``: the inverse of `get`.

        Raises:
            ValueError: ``value`` is not in the slice.
        """
        position = self._find(to_int(value))
        if position < 0:
            raise ValueError(f"value {value} not in {self}")
        return position

    def coordinates(self, value: int) -> list[int]:
        """Return the coordinates of ``value``: the inverse of `nditem`.

        Raises:
            ValueError: ``value`` is not in the slice.
        """
        rest = self.index(value)
        coordinates = [0] * len(self._sizes)
        for axis in range(len(self._sizes) - 1, -1, -1):
            rest, coordinates[axis] = divmod(rest, self._sizes[axis])
        return coordinates

    def ranks(self) -> list[int]:
        """Return all values in row-major order."""
        return list(self)

    def rows(self) -> Iterator[range]:
        """Yield the values in row-major order, as few ranges as the strides allow."""
        axes = self._merged()
        if not axes:
            yield range(self._offset, self._offset + 1)
            return
        size, stride = axes[-1]
        for start in self._row_starts(axes[:-1]):
            yield range(start, start + size * stride, stride)

    def restrict(self, selectors: Sequence[int | range]) -> NDSlice:
        """Return the part at ``selectors``, one for each axis.

        Args:
            selectors: An int drops its axis. A range keeps it; it must not be empty, its
                step must be at least 1. All must lie within the sizes; nothing is checked.
        """
        offset = self._offset
        sizes: list[int] = []
        strides: list[int] = []
        for selector, stride in zip(selectors, self._strides, strict=True):
            if isinstance(selector, range):
                offset += selector.start * stride
                sizes.append(len(selector))
                strides.append(selector.step * stride)
            else:
                offset += selector * stride
        part = object.__new__(NDSlice)
        part._fill(offset, tuple(sizes), tuple(strides))
        return part

    def positions_of(self, other: NDSlice) -> Sequence[int]:
        """Return where the values of ``other``, in its order, stand in this slice.

        The same values in the same order give a `range` at no cost, whatever the axes.

        Raises:
            ValueError: ``other`` has a value that is not in this slice.
        """
        if self._offset == other._offset and self._merged() == other._merged():
            return range(self._length)
        if self.is_dense and other._offset >= self._offset and other._last <= self._last:
            offset = self._offset
            return [value - offset for value in other]
        positions = list(map(self._find, other))
        if min(positions) < 0:
            missing = other.get(positions.index(-1))
            raise ValueError(f"value {missing} of {other} not in {self}")
        return positions

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.rows())

    def __contains__(self, value: object) -> bool:
        try:
            return self._find(to_int(cast("SupportsIndex", value))) >= 0
        except TypeError:
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NDSlice):
            return NotImplemented
        return (
            self._offset == other._offset
            and self._sizes == other._sizes
            and self._strides == other._strides
        )

    def __hash__(self) -> int:
        return hash((self._offset, self._sizes, self._strides))

    def __reduce__(self) -> tuple[object, tuple[int, tuple[int, ...], tuple[int, ...]]]:
        return _restore, (self._offset, self._sizes, self._strides)

    def __repr__(self) -> str:
        return f"Slice {{ offset: {self._offset}, sizes: {self.sizes}, strides: {self.strides} }}"

    @property
    def _last(self) -> int:
        """The largest value."""
        return self._offset + _span(self._sizes, self._strides)

    def _merged(self) -> tuple[Axis, ...]:
        """Return the axes without those of size 1, each joined to the one it continues."""
        if self._axes is None:
            axes: list[Axis] = []
            for size, stride in zip(self._sizes, self._strides, strict=True):
                if size == 1:
                    continue
                if axes and axes[-1][1] == size * stride:
                    axes[-1] = (axes[-1][0] * size, stride)
                else:
                    axes.append((size, stride))
            self._axes = tuple(axes)
        return self._axes

    def _row_starts(self, axes: Sequence[Axis]) -> Iterable[int]:
        """Return the first value of each row: all values along all axes but the last."""
        starts: list[int] = [self._offset]
        for size, stride in axes:
            steps = range(0, size * stride, stride)
            starts = [start + step for start in starts for step in steps]
        return starts

    def _value_at(self, position: int) -> int:
        """Return the value at a position that is known to be in range."""
        value = self._offset
        for size, stride in reversed(self._merged()):
            position, coordinate = divmod(position, size)
            value += coordinate * stride
        return value

    def _find(self, value: int) -> int:
        """Return the position of ``value``, -1 if it is not here.

        The probes are the merged axes, largest stride first: stride, size, and the distance
        in row-major order of neighbours along that axis.
        """
        probes = self._probes
        if probes is None:
            probes = self._probes = _make_probes(self._merged())
        rest = value - self._offset
        if rest < 0:
            return -1
        position = 0
        for stride, size, weight in probes:
            coordinate = rest // stride
            if coordinate >= size:
                return -1
            rest -= coordinate * stride
            position += coordinate * weight
        return -1 if rest else position


Slice = NDSlice


def _restore(offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> NDSlice:
    """Rebuild a pickled slice; pickle passes no keyword arguments."""
    return NDSlice(offset=offset, sizes=sizes, strides=strides)


def _row_major_strides(sizes: Sequence[int]) -> list[int]:
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return strides


def _span(sizes: Iterable[int], strides: Iterable[int]) -> int:
    """Return the distance of the largest value from the smallest."""
    return sum([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)])


def _make_probes(axes: Sequence[Axis]) -> tuple[tuple[int, int, int], ...]:
    weights = _row_major_strides([size for size, _ in axes])
    probes = [(stride, size, weight) for (size, stride), weight in zip(axes, weights, strict=True)]
    return tuple(sorted(probes, reverse=True))


def _check_strides(sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    if len(sizes) != len(strides):
        raise ValueError(f"invalid dims: {len(sizes)} sizes {sizes} but {len(strides)} strides")
    if prod(sizes) > sys.maxsize:
        raise ValueError(f"slice of sizes {list(sizes)} has more than {sys.maxsize} values")
    span = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if stride < 1:
            raise ValueError(f"stride of a slice must be at least 1, got {stride}")
        if size == 1:
            continue
        if stride <= span:
            raise ValueError(
                f"stride {stride} must be larger than {span}, the span of the smaller strides: "
                f"values would collide or interleave (sizes {list(sizes)}, strides {list(strides)})"
            )
        span += (size - 1) * stride
