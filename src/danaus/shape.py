"""Shapes of meshes: which ranks there are, how their dimensions are named, and one value each.

Example:
    >>> from danaus.shape import Extent, Point
    >>> Point(5, Extent(["hosts", "gpus"], [2, 4]))
    {'hosts': 1/2, 'gpus': 1/4}
"""

from __future__ import annotations

from danaus._shape.dimensions import UnknownDimensionError
from danaus._shape.extent import Extent, Point
from danaus._shape.mesh import MeshTrait
from danaus._shape.reshape import AxisSelector, slice_shape
from danaus._shape.selection import Selection
from danaus._shape.shape import Region, Shape
from danaus._shape.slice import NDSlice, Slice
from danaus._shape.value_mesh import ValueMesh

__all__ = [
    "Extent",
    "MeshTrait",
    "NDSlice",
    "Point",
    "Region",
    "Selection",
    "Shape",
    "ShapeExt",
    "Slice",
    "UnknownDimensionError",
    "ValueMesh",
]


class ShapeExt:
    """Operations on shapes that take ints and slices at once."""

    @staticmethod
    def slice(shape: Shape, /, **selectors: AxisSelector) -> Shape:
        """Return the part of ``shape`` at ``selectors``; see `MeshTrait.slice`.

        Raises:
            TypeError: No such dimension.
            IndexError: An int is out of range; negative ones always are.
            ValueError: A slice has a step below 1 or selects nothing.
        """
        return slice_shape(shape, selectors)
