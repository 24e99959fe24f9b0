"""Which ranks a mesh has, how they are named, and one value for each of them.

The lowest layer: pure values and arithmetic on them, no input or output. Everything is
immutable. A rank is an int; a dimension is a label with a size; order is row-major (the
last dimension varies fastest).
"""

from __future__ import annotations

from danaus._shape.extent import Extent, Point
from danaus._shape.mesh import MeshTrait
from danaus._shape.shape import Region, Shape
from danaus._shape.slice import NDSlice, Slice
from danaus._shape.value_mesh import ValueMesh

__all__ = ["Extent", "MeshTrait", "NDSlice", "Point", "Region", "Shape", "Slice", "ValueMesh"]
