"""Which ranks a mesh has, how they are named, and one value for each of them.

The lowest layer: pure values and arithmetic on them, no input or output. Everything is
immutable. A rank is an int; a dimension is a label with a size; order is row-major (the
last dimension varies fastest).
"""

__all__: list[str] = []
