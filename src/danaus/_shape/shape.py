"""Which ranks a mesh has, with named dimensions.

A `Shape` names the axes of an `NDSlice`. Its ranks are those of the mesh that it was first
cut from, so slices of slices still say which ranks they mean. A `Region` is the same
knowledge as seen from that first mesh.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index as to_int

from danaus._shape.dimensions import UnknownDimensionError, check_labels, list_labels
from danaus._shape.extent import Extent, Point
from danaus._shape.slice import NDSlice

__all__ = ["Region", "Shape", "selected_positions"]


def selected_positions(extent: Extent, label: str, selection: slice) -> range:
    """Return the positions along a dimension that a Python slice selects.

    Raises:
        TypeError: ``selection`` is no slice, or a bound of it no integer.
        ValueError: Its step is below 1, or it selects nothing.
    """
    if not isinstance(selection, slice):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise TypeError(f"dimension {label!r} is selected by a slice, got {selection!r}")
    size = extent[label]
    positions = range(*selection.indices(size))
    if positions.step < 1:
        raise ValueError(
            f"step along {label!r} of {extent} must be at least 1, got {positions.step}"
        )
    if not positions:
        raise ValueError(
            f"empty range {positions.start}:{positions.stop}:{positions.step} along {label!r} "
            f"(size {size}) of {extent}. A part has at least one rank."
        )
    return positions


class Shape:
    """An immutable slice of ranks whose axes have labels.

    Example:
        >>> shape = Shape(["hosts", "gpus"], NDSlice.new_row_major([2, 4]))
        >>> str(shape.at("hosts", 1)), shape.at("hosts", 1).ranks()
        ('{gpus=4}', [4, 5, 6, 7])
        >>> shape.select("gpus", slice(0, 4, 2)).ranks()
        [0, 2, 4, 6]
    """

    __slots__ = ("_extent", "_labels", "_slice")

    _labels: tuple[str, ...]
    _slice: NDSlice
    _extent: Extent | None  # None until needed

    def __init__(self, labels: Iterable[str], slice: NDSlice) -> None:  # noqa: A002  # public keyword
        """Name the axes of ``slice``, outermost first.

        Raises:
            TypeError: ``slice`` is no NDSlice, or a label no str.
            ValueError: Labels repeat or do not match the axes in number.
        """
        if not isinstance(slice, NDSlice):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise TypeError(f"a shape needs an NDSlice, got {slice!r}")
        self._labels = check_labels(labels, slice.ndim)
        self._slice = slice
        self._extent = None

    @classmethod
    def unity(cls) -> Shape:
        """Return the shape of the one rank 0, without dimensions."""
        return cls((), NDSlice.new_row_major(()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Shape:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: ``data`` is something else.
        """
        import json

        try:
            fields = json.loads(data)
            sliced = fields["slice"]
            return cls(
                fields["labels"],
                NDSlice(offset=sliced["offset"], sizes=sliced["sizes"], strides=sliced["strides"]),
            )
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise ValueError(f"not a shape written by to_bytes: {error}") from error

    def to_bytes(self) -> bytes:
        """Return the shape as JSON: ``labels``, and ``slice`` with offset, sizes, strides."""
        import json

        sliced = self._slice
        fields = {"offset": sliced.offset, "sizes": sliced.sizes, "strides": sliced.strides}
        return json.dumps({"labels": self._labels, "slice": fields}).encode()

    @property
    def labels(self) -> list[str]:
        """Names of the dimensions, outermost first, a fresh list."""
        return list(self._labels)

    @property
    def ndslice(self) -> NDSlice:
        """The ranks without the names."""
        return self._slice

    @property
    def extent(self) -> Extent:
        """Labels and sizes."""
        if self._extent is None:
            self._extent = Extent(self._labels, self._slice.sizes)
        return self._extent

    @property
    def region(self) -> Region:
        """The same labels and ranks as a region."""
        return Region(self._labels, self._slice)

    def ranks(self) -> list[int]:
        """Return all ranks in row-major order."""
        return self._slice.ranks()

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return where ``rank`` stands, label by label.

        Raises:
            ValueError: The shape does not have this rank.
        """
        return dict(zip(self._labels, self._slice.coordinates(rank), strict=True))

    def at(self, label: str, index: int) -> Shape:
        """Return the part at one coordinate; the dimension goes.

        Raises:
            ValueError: No such dimension, or ``index`` is beyond its size.
            OverflowError: ``index`` is negative.
        """
        return self.index(**{label: index})

    def index(self, /, **coordinates: int) -> Shape:
        """Return the part at several coordinates; their dimensions go.

        Raises:
            ValueError: No such dimension, or an index is beyond its size.
            OverflowError: An index is negative.
        """
        chosen: dict[str, int | range] = {}
        for label, coordinate in coordinates.items():
            size = self._size_of(label)
            position = to_int(coordinate)
            if position < 0:
                raise OverflowError(
                    f"index along {label!r} of {self} must not be negative, got {position}"
                )
            if position >= size:
                raise ValueError(
                    f"index {position} out of range along {label!r} (size {size}) of {self}"
                )
            chosen[label] = position
        return self.restrict(chosen)

    def select(self, label: str, slice: slice) -> Shape:  # noqa: A002  # public keyword
        """Return the part within a Python slice; the dimension stays.

        Raises:
            TypeError: ``slice`` is something else.
            ValueError: No such dimension, a step below 1, or nothing is selected.
        """
        self._size_of(label)
        return self.restrict({label: selected_positions(self.extent, label, slice)})

    def restrict(self, selectors: dict[str, int | range]) -> Shape:
        """Return the part at ``selectors``, which are known to be valid.

        Args:
            selectors: For each dimension concerned an int, which drops it, or a range.
        """
        extent = self.extent
        chosen = [selectors.get(label, range(extent[label])) for label in self._labels]
        kept = [
            label
            for label, selector in zip(self._labels, chosen, strict=True)
            if isinstance(selector, range)
        ]
        return Shape(kept, self._slice.restrict(chosen))

    def _size_of(self, label: str) -> int:
        """Return the size along ``label``; an unknown one is a ValueError that names the shape."""
        if label not in self._labels:
            raise UnknownDimensionError(
                f"invalid label {label!r}: {self} has {list_labels(self._labels)}"
            )
        return self.extent[label]

    def __len__(self) -> int:
        return len(self._slice)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        return self._labels == other._labels and self._slice == other._slice

    def __hash__(self) -> int:
        return hash((self._labels, self._slice))

    def __reduce__(self) -> tuple[type[Shape], tuple[tuple[str, ...], NDSlice]]:
        return Shape, (self._labels, self._slice)

    def __str__(self) -> str:
        sizes = zip(self._labels, self._slice.sizes, strict=True)
        return "{" + ",".join([f"{label}={size}" for label, size in sizes]) + "}"

    def __repr__(self) -> str:
        return f"Shape {{ labels: [{_quoted(self._labels)}], slice: {self._slice} }}"


class Region:
    """An immutable part of a larger mesh: labels, and the ranks that it has there.

    The ranks of that larger mesh are called base ranks.

    Example:
        >>> region = Region(["gpus"], NDSlice(offset=4, sizes=[2], strides=[2]))
        >>> region.point_of_base_rank(6)
        {'gpus': 1/2}
    """

    __slots__ = ("_shape",)

    _shape: Shape

    def __init__(self, labels: Iterable[str], slice: NDSlice) -> None:  # noqa: A002  # public keyword
        """Name the axes of ``slice``; errors as for `Shape`."""
        self._shape = Shape(labels, slice)

    @property
    def labels(self) -> list[str]:
        """Names of the dimensions, outermost first, a fresh list."""
        return self._shape.labels

    @property
    def extent(self) -> Extent:
        """Labels and sizes."""
        return self._shape.extent

    def slice(self) -> NDSlice:
        """Return the base ranks."""
        return self._shape.ndslice

    def as_shape(self) -> Shape:
        """Return the same labels and ranks as a shape."""
        return self._shape

    def point_of_base_rank(self, rank: int) -> Point:
        """Return where a base rank stands in this region.

        Raises:
            ValueError: The region does not have this rank.
        """
        if rank not in self._shape.ndslice:
            raise ValueError(
                f"base rank {rank} out of range: it does not belong to this region, {self}"
            )
        return Point(self._shape.ndslice.index(rank), self._shape.extent)

    def __len__(self) -> int:
        return len(self._shape)

    def __eq__(self, other: object) -> bool:
        return self._shape == other._shape if isinstance(other, Region) else NotImplemented

    def __hash__(self) -> int:
        return hash((Region, self._shape))

    def __reduce__(self) -> tuple[type[Region], tuple[list[str], NDSlice]]:
        return Region, (self._shape.labels, self._shape.ndslice)

    def __repr__(self) -> str:
        labels = _quoted(self._shape.labels)
        return f"Region {{ labels: [{labels}], slice: {self._shape.ndslice} }}"


def _quoted(labels: Iterable[str]) -> str:
    """Show labels in double quotes, as the representations do."""
    escaped = [label.replace("\\", "\\\\").replace('"', '\\"') for label in labels]
    return ", ".join([f'"{label}"' for label in escaped])
