"""What every mesh can do with its dimensions, whatever it is a mesh of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Self

from danaus._shape.dimensions import UnknownDimensionError, list_labels
from danaus._shape.reshape import (
    AxisSelector,
    flatten_shape,
    rename_shape,
    slice_shape,
    split_shape,
)
from danaus._shape.shape import Shape

if TYPE_CHECKING:
    from danaus._shape.extent import Extent
    from danaus._shape.slice import NDSlice

__all__ = ["MeshTrait"]


class MeshTrait:
    """Slicing and reshaping for meshes of hosts, procs, actors and values.

    A subclass supplies `_ndslice`, `_labels` and `_new_with_shape`. It is an ordinary class
    without a metaclass, because users' actor classes inherit from it and may bring one.
    """

    __slots__ = ()

    @property
    def _ndslice(self) -> NDSlice:
        """The ranks of this mesh, within the mesh that it was first cut from."""
        raise NotImplementedError(f"{type(self).__name__} must define _ndslice")

    @property
    def _labels(self) -> Iterable[str]:
        """Names of the dimensions, outermost first."""
        raise NotImplementedError(f"{type(self).__name__} must define _labels")

    def _new_with_shape(self, shape: Shape) -> Self:
        """Return this mesh with another shape, all of whose ranks it has."""
        raise NotImplementedError(f"{type(self).__name__} must define _new_with_shape")

    def _as_shape(self) -> Shape:
        """Return the ranks with their names; a subclass that keeps a shape returns that."""
        return Shape(self._labels, self._ndslice)

    @property
    def extent(self) -> Extent:
        """Labels and sizes of the dimensions."""
        return self._as_shape().extent

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each dimension by label, a fresh dict."""
        return dict(self.extent)

    def __len__(self) -> int:
        return len(self._ndslice)

    def size(self, dim: str | Sequence[str] | None = None) -> int:
        """Return the number of elements.

        Args:
            dim: Along one dimension, or the product along several; ``None`` for all.

        Raises:
            KeyError: No such dimension.
        """
        extent = self.extent
        if dim is None:
            return extent.nelements
        labels = (dim,) if isinstance(dim, str) else dim
        for label in labels:
            if label not in extent:
                raise UnknownDimensionError(
                    f"{type(self).__name__} {extent} does not have dimension {label!r}; "
                    f"it has {list_labels(extent)}"
                )
        return prod([extent[label] for label in labels])

    def slice(self, /, **selectors: AxisSelector) -> Self:
        """Return a part of the mesh.

        Args:
            selectors: For each dimension concerned, an int, which drops the dimension, or a
                slice, which keeps it: start and stop as in Python, step at least 1.

        Raises:
            TypeError: No such dimension.
            IndexError: An int is out of range; negative ones always are.
            ValueError: A slice has a step below 1 or selects nothing.

        Example:
            ``mesh.slice(hosts=0, gpus=slice(2, 4))`` is a mesh ``{gpus: 2}``.
        """
        return self._new_with_shape(slice_shape(self._as_shape(), selectors))

    def split(self, /, **requests: Sequence[str] | int) -> Self:
        """Return the mesh with dimensions cut into several, row-major.

        Args:
            requests: For a dimension that there is, the names that replace it; for a new
                name, its size. One size for each replaced dimension may be left out.

        Raises:
            ValueError: Names or sizes do not work out; the text says which.

        Example:
            ``mesh.split(hosts=("racks", "hosts"), racks=2)`` makes ``{hosts: 8}`` to
            ``{racks: 2, hosts: 4}``.
        """
        return self._new_with_shape(split_shape(self._as_shape(), requests))

    def flatten(self, name: str) -> Self:
        """Return the mesh with one dimension, called ``name``, instead of all.

        Raises:
            ValueError: The mesh is a part whose ranks are not consecutive.
        """
        return self._new_with_shape(flatten_shape(self._as_shape(), name))

    def rename(self, /, **names: str) -> Self:
        """Return the mesh with other names for its dimensions, ``old="new"``.

        Raises:
            TypeError: A new name is not a str.
            ValueError: No such dimension, or two would have the same name.
        """
        return self._new_with_shape(rename_shape(self._as_shape(), names))
