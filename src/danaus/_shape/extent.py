"""How large a mesh is along each named dimension, and one place in it.

An `Extent` says nothing about which ranks a mesh has; its own ranks are 0, 1, 2… in
row-major order. A `Point` is one of them. Points are made for every message, so a point is
two references, and its coordinates are computed when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from operator import index as to_int
from typing import TYPE_CHECKING

from danaus._shape.dimensions import (
    UnknownDimensionError,
    check_labels,
    check_sizes,
    format_sizes,
    list_labels,
)

if TYPE_CHECKING:
    from danaus._shape.shape import Region

__all__ = ["Extent", "Point"]

#: Size of a dimension, and the distance in ranks of neighbours along it.
Axis = tuple[int, int]


class Extent(Mapping[str, int]):
    """Labels and sizes of dimensions: an immutable mapping from label to size.

    The extent without dimensions has one element. No size is zero.

    Example:
        >>> extent = Extent(["hosts", "gpus"], [2, 8])
        >>> extent, extent["gpus"], extent.nelements
        ({hosts: 2, gpus: 8}, 8, 16)
    """

    __slots__ = ("_axes", "_labels", "_nelements", "_sizes")

    _labels: tuple[str, ...]
    _sizes: tuple[int, ...]
    _nelements: int
    _axes: dict[str, Axis] | None  # None until a point or a size is asked by label

    def __init__(self, labels: Iterable[str], sizes: Iterable[int]) -> None:
        """Make the extent, outermost dimension first.

        Raises:
            TypeError: A label is no str or a size no integer.
            ValueError: Labels repeat or do not match the sizes in number; a size is below 1.
        """
        names = tuple(labels) if not isinstance(labels, str) else labels
        self._sizes = check_sizes(sizes, names)
        self._labels = check_labels(names, len(self._sizes))
        self._nelements = prod(self._sizes)
        self._axes = None

    @property
    def labels(self) -> list[str]:
        """Names of the dimensions, outermost first, a fresh list."""
        return list(self._labels)

    @property
    def sizes(self) -> list[int]:
        """Sizes of the dimensions, a fresh list."""
        return list(self._sizes)

    @property
    def nelements(self) -> int:
        """Number of points: the product of the sizes."""
        return self._nelements

    @property
    def region(self) -> Region:
        """The region of ranks 0, 1, 2… with this extent."""
        # A region knows extents; the import at the top would be a circle.
        from danaus._shape.shape import Region
        from danaus._shape.slice import NDSlice

        return Region(self._labels, NDSlice.new_row_major(self._sizes))

    def axis(self, label: str) -> Axis:
        """Return the size of a dimension and the distance in ranks of neighbours along it.

        Raises:
            UnknownDimensionError: There is no such dimension (a ValueError and KeyError).
        """
        axes = self._axes
        if axes is None:
            axes = self._axes = self._make_axes()
        try:
            return axes[label]
        except KeyError:
            known = list_labels(self._labels)
            raise UnknownDimensionError(
                f"Dimension {label!r} not found in {self}; it has {known}"
            ) from None

    def _make_axes(self) -> dict[str, Axis]:
        axes: dict[str, Axis] = {}
        stride = self._nelements
        for label, size in zip(self._labels, self._sizes, strict=True):
            stride //= size
            axes[label] = (size, stride)
        return axes

    def __getitem__(self, label: str) -> int:
        return self.axis(label)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Extent):
            return NotImplemented
        return self._labels == other._labels and self._sizes == other._sizes

    def __hash__(self) -> int:
        return hash((self._labels, self._sizes))

    def __reduce__(self) -> tuple[type[Extent], tuple[tuple[str, ...], tuple[int, ...]]]:
        return Extent, (self._labels, self._sizes)

    def __repr__(self) -> str:
        return format_sizes(self._labels, self._sizes)


class Point(Mapping[str, int]):
    """One rank of an extent: an immutable mapping from label to coordinate.

    Example:
        >>> point = Point(9, Extent(["hosts", "gpus"], [2, 8]))
        >>> point, point["hosts"], point.size("gpus"), dict(point)
        ({'hosts': 1/2, 'gpus': 1/8}, 1, 8, {'hosts': 1, 'gpus': 1})
    """

    __slots__ = ("_extent", "_rank")

    _rank: int
    _extent: Extent

    def __init__(self, rank: int, extent: Extent) -> None:
        """Make the point of ``rank``, a row-major position in ``extent``.

        Raises:
            TypeError: ``rank`` is no integer.
            OverflowError: ``rank`` is negative.
            ValueError: ``rank`` is not below ``extent.nelements``.
        """
        self._rank = rank = to_int(rank)
        self._extent = extent
        if rank < 0:
            raise OverflowError(f"rank of a point must not be negative, got {rank}")
        if rank >= extent.nelements:
            raise ValueError(
                f"rank {rank} out of range of {extent}, which has ranks 0..{extent.nelements - 1}"
            )

    @property
    def rank(self) -> int:
        """Row-major position in the extent, from 0."""
        return self._rank

    @property
    def extent(self) -> Extent:
        """The extent that the point lies in."""
        return self._extent

    def size(self, label: str) -> int:
        """Return the size of the extent along ``label``.

        Raises:
            UnknownDimensionError: There is no such dimension (a ValueError and KeyError).
        """
        return self._extent.axis(label)[0]

    def __getitem__(self, label: str) -> int:
        size, stride = self._extent.axis(label)
        return self._rank // stride % size

    def __iter__(self) -> Iterator[str]:
        return iter(self._extent)

    def __len__(self) -> int:
        return len(self._extent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Point):
            return NotImplemented
        return self._rank == other._rank and self._extent == other._extent

    def __hash__(self) -> int:
        return hash((self._rank, self._extent))

    def __reduce__(self) -> tuple[type[Point], tuple[int, Extent]]:
        return Point, (self._rank, self._extent)

    def __repr__(self) -> str:
        places = [f"{label!r}: {self[label]}/{self.size(label)}" for label in self._extent]
        return "{" + ", ".join(places) + "}"
