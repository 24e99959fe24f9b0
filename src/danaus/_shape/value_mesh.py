"""One value for each rank of a mesh: what a call to many actors returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index as to_int
from typing import TYPE_CHECKING, Generic, TypeVar

from danaus._shape.dimensions import UnknownDimensionError, list_labels
from danaus._shape.extent import Point
from danaus._shape.mesh import MeshTrait

if TYPE_CHECKING:
    from danaus._shape.shape import Shape
    from danaus._shape.slice import NDSlice

__all__ = ["ValueMesh"]

R = TypeVar("R")

#: Room on a line of the representation, in characters, and most values that it shows.
_LINE_WIDTH = 80
_MOST_VALUES_SHOWN = 64


class ValueMesh(MeshTrait, Generic[R]):
    """Values by rank, with the shape of the mesh that they came from.

    The mesh is immutable; the values are the user's. Iterating yields ``(Point, value)``
    pairs in rank order.

    Example:
        >>> from danaus.shape import NDSlice, Shape
        >>> mesh = ValueMesh(Shape(["hosts", "gpus"], NDSlice.new_row_major([1, 2])), ["a", "b"])
        >>> mesh.item(hosts=0, gpus=1), mesh.slice(gpus=0).values()
        ('b', ['a'])
        >>> mesh
        ValueMesh({hosts: 1, gpus: 2}):
          (({'hosts': 0/1, 'gpus': 0/2}, 'a'), ({'hosts': 0/1, 'gpus': 1/2}, 'b'))
    """

    __slots__ = ("_shape", "_values")

    _shape: Shape
    _values: Sequence[R]

    def __init__(self, shape: Shape, values: Sequence[R]) -> None:
        """Join a shape and its values, in row-major order of the shape.

        Args:
            shape: Where the values stand.
            values: Kept, not copied: do not change it afterwards.

        Raises:
            ValueError: There are more or fewer values than ranks.

        Cost: constant.
        """
        if len(values) != len(shape):
            raise _wrong_count(shape, len(values))
        self._shape = shape
        self._values = values

    @classmethod
    def from_indexed(cls, shape: Shape, items: Iterable[tuple[int, R]]) -> ValueMesh[R]:
        """Return the mesh of ``(position, value)`` pairs in any order.

        Args:
            shape: Where the values stand.
            items: Positions count from 0 in row-major order; the last pair of a position wins.

        Raises:
            ValueError: A position without a value, or outside of the shape.
        """
        by_position: dict[int, R] = {}
        for position, value in items:
            if not 0 <= position < len(shape):
                raise ValueError(f"rank {position} out of range (len={len(shape)}) of {shape}")
            by_position[position] = value
        if len(by_position) != len(shape):
            raise _wrong_count(shape, len(by_position))
        return cls(shape, [by_position[position] for position in range(len(shape))])

    @property
    def _ndslice(self) -> NDSlice:
        return self._shape.ndslice

    @property
    def _labels(self) -> list[str]:
        return self._shape.labels

    def _as_shape(self) -> Shape:
        return self._shape

    def _new_with_shape(self, shape: Shape) -> ValueMesh[R]:
        positions = self._shape.ndslice.positions_of(shape.ndslice)
        values = self._values
        if isinstance(positions, range):
            return ValueMesh(shape, values)
        return ValueMesh(shape, [values[position] for position in positions])

    def get(self, rank: int) -> R:
        """Return the value at position ``rank``, from 0 in row-major order.

        Raises:
            ValueError: ``rank`` is out of range; negative ones always are.
        """
        position = to_int(rank)
        if not 0 <= position < len(self._values):
            raise ValueError(f"index {position} out of range (len={len(self._values)})")
        return self._values[position]

    def item(self, /, **coordinates: int) -> R:
        """Return the value at ``coordinates``, one for every dimension.

        Raises:
            KeyError: A dimension is missing or unknown.
            IndexError: A coordinate is out of range.
        """
        extent = self._shape.extent
        position = 0
        for label in extent:
            if label not in coordinates:
                raise UnknownDimensionError(
                    f"item of ValueMesh {extent} needs a coordinate for {label!r}"
                )
            size, stride = extent.axis(label)
            coordinate = to_int(coordinates[label])
            if not 0 <= coordinate < size:
                raise IndexError(
                    f"coordinate {coordinate} out of range along {label!r} (size {size}) of "
                    f"ValueMesh {extent}. Valid coordinates are 0..{size - 1}."
                )
            position += coordinate * stride
        if len(coordinates) > len(extent):
            extra = [label for label in coordinates if label not in extent]
            raise UnknownDimensionError(
                f"item has extra dimensions: {extra}; ValueMesh {extent} has {list_labels(extent)}"
            )
        return self._values[position]

    def items(self) -> Iterator[tuple[Point, R]]:
        """Yield ``(Point, value)`` pairs in rank order."""
        extent = self._shape.extent
        for rank, value in enumerate(self._values):
            yield Point(rank, extent), value

    def values(self) -> list[R]:
        """Return the values in rank order, a fresh list."""
        return list(self._values)

    def __iter__(self) -> Iterator[tuple[Point, R]]:
        return self.items()

    def __reduce__(self) -> tuple[type[ValueMesh[R]], tuple[Shape, Sequence[R]]]:
        return ValueMesh, (self._shape, self._values)

    def __repr__(self) -> str:
        extent = self._shape.extent
        entries = [
            f"({Point(rank, extent)}, {value!r})"
            for rank, value in enumerate(self._values[:_MOST_VALUES_SHOWN])
        ]
        if len(self._values) > len(entries):
            entries.append(f"… {len(self._values) - len(entries)} more")
        return f"ValueMesh({extent}):\n  {_format_tuple(entries)}"


def _wrong_count(shape: Shape, count: int) -> ValueError:
    return ValueError(
        f"invalid value mesh: expected {len(shape)} values for {shape}, but it contains {count}"
    )


def _format_tuple(entries: Sequence[str]) -> str:
    """Show entries as a tuple, on one line where they fit, else on a line each."""
    if len(entries) == 1:
        return f"({entries[0]},)"
    line = f"({', '.join(entries)})"
    return line if len(line) < _LINE_WIDTH else "(" + ",\n   ".join(entries) + ")"
