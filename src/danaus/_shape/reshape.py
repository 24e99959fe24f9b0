"""What slicing, splitting, flattening and renaming a mesh make of its shape.

Each takes a shape and the keywords of the mesh operation of the same name, and returns the
shape of the result. Errors name dimensions, values and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from operator import index as to_int
from typing import TYPE_CHECKING

from danaus._shape.dimensions import list_labels
from danaus._shape.shape import Shape, selected_positions
from danaus._shape.slice import NDSlice

if TYPE_CHECKING:
    from danaus._shape.extent import Extent

__all__ = ["AxisSelector", "flatten_shape", "rename_shape", "slice_shape", "split_shape"]

#: What picks a part of a dimension: an int drops the dimension, a slice keeps it.
AxisSelector = int | slice


def slice_shape(shape: Shape, selectors: Mapping[str, AxisSelector]) -> Shape:
    """Return the part of ``shape`` at ``selectors``.

    Raises:
        TypeError: No such dimension, or a selector that is neither int nor slice.
        IndexError: An int is negative or beyond the size.
        ValueError: A slice has a step below 1 or selects nothing.
    """
    extent = shape.extent
    chosen: dict[str, int | range] = {}
    for label, selector in selectors.items():
        if label not in extent:
            raise TypeError(
                f"{extent} does not have dimension {label!r}; it has {list_labels(extent)}"
            )
        if isinstance(selector, slice):
            chosen[label] = selected_positions(extent, label, selector)
        else:
            chosen[label] = _checked_index(extent, label, selector)
    return shape.restrict(chosen)


def _checked_index(extent: Extent, label: str, selector: int) -> int:
    try:
        position = to_int(selector)
    except TypeError:
        raise TypeError(
            f"dimension {label!r} is sliced by an int or a slice, got {selector!r}"
        ) from None
    size = extent[label]
    if not 0 <= position < size:
        raise IndexError(
            f"index {position} out of range along {label!r} (size {size}) of {extent}. "
            f"Valid indices are 0..{size - 1}."
        )
    return position


def split_shape(shape: Shape, requests: Mapping[str, Sequence[str] | int]) -> Shape:
    """Cut dimensions into several, row-major.

    Args:
        shape: What to split.
        requests: For a dimension that there is, the sequence of its new names; for a new
            name, its size. At most one new size for each dimension may be left out.

    Raises:
        ValueError: An existing dimension without a sequence; a new one without an integer of
            at least 1; sizes that do not divide the dimension, cannot be inferred, or name
            nothing; a name that occurs twice.
    """
    parts, constraints = _sort_requests(shape, requests)
    names_of = {label: parts.get(label, (label,)) for label in shape.labels}
    new_labels = [name for names in names_of.values() for name in names]
    _refuse_duplicates(new_labels)
    new_sizes: list[int] = []
    new_strides: list[int] = []
    old = shape.ndslice
    for label, size, stride in zip(shape.labels, old.sizes, old.strides, strict=True):
        sizes = _infer_sizes(label, size, parts[label], constraints) if label in parts else [size]
        new_sizes += sizes
        new_strides += [stride * prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    split_names = [name for names in parts.values() for name in names]
    unused = tuple(name for name in constraints if name not in split_names)
    if unused:
        raise ValueError(
            f"unused size constraints: {unused}; new names are {list_labels(split_names)}"
        )
    return Shape(new_labels, NDSlice(offset=old.offset, sizes=new_sizes, strides=new_strides))


def _sort_requests(
    shape: Shape, requests: Mapping[str, Sequence[str] | int]
) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """Return new names by existing dimension, and sizes by new dimension."""
    parts: dict[str, tuple[str, ...]] = {}
    constraints: dict[str, int] = {}
    for label, request in requests.items():
        if label in shape.extent:
            if isinstance(request, str) or not isinstance(request, Iterable):
                raise ValueError(f"expected a sequence of dimensions, but got {request!r}")
            parts[label] = tuple(request)
        else:
            constraints[label] = _checked_size(shape, label, request)
    return parts, constraints


def _checked_size(shape: Shape, label: str, request: object) -> int:
    if not hasattr(request, "__index__"):
        raise ValueError(
            f"{label!r} is not an existing dim. Expected an integer size constraint on a new "
            f"dim. {shape.extent} has {list_labels(shape.extent)}."
        )
    size = to_int(request)  # pyright: ignore[reportArgumentType]  # it has __index__
    if size < 1:
        raise ValueError(f"size of new dimension {label!r} must be at least 1, got {size}")
    return size


def _infer_sizes(
    label: str, size: int, names: tuple[str, ...], constraints: Mapping[str, int]
) -> list[int]:
    """Return the sizes of the parts of one dimension, the missing one worked out."""
    unknown = [name for name in names if name not in constraints]
    if len(unknown) > 1:
        first, second = unknown[:2]
        raise ValueError(
            f"Cannot infer size of {names} because both {second} and {first} have unknown size. "
            f"Specify at least one as argument, e.g. {second}=4"
        )
    known = prod([constraints[name] for name in names if name in constraints])
    if size % known or (not unknown and known != size):
        shown = tuple(constraints.get(name, "?") for name in names)
        raise ValueError(
            f"Dimension {label!r} of size {size} is not evenly divided by {names} "
            f"with sizes {shown}"
        )
    return [constraints.get(name, size // known) for name in names]


def _refuse_duplicates(labels: Sequence[str]) -> None:
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise ValueError(
                f"Duplicate dimension name {label!r}: the result would have {list_labels(labels)}"
            )
        seen.add(label)


def flatten_shape(shape: Shape, name: str) -> Shape:
    """Join all dimensions into one, called ``name``.

    Raises:
        ValueError: The ranks are not consecutive.
    """
    ndslice = shape.ndslice
    if not ndslice.is_dense:
        dense = NDSlice.new_row_major(ndslice.sizes).strides
        raise ValueError(
            f"cannot flatten sparse mesh {shape.extent}: its strides {ndslice.strides} are not "
            f"{dense}, so its ranks are not consecutive. Flatten before slicing."
        )
    return Shape([name], NDSlice(offset=ndslice.offset, sizes=[len(ndslice)], strides=[1]))


def rename_shape(shape: Shape, names: Mapping[str, str]) -> Shape:
    """Give dimensions new names, old to new.

    Raises:
        TypeError: A new name is not a str.
        ValueError: No such dimension, or two would have the same name.
    """
    for label in names:
        if label not in shape.extent:
            raise ValueError(
                f"cannot rename {label!r}: it is not an existing dim of {shape.extent}, which has "
                f"{list_labels(shape.extent)}"
            )
    labels = [names.get(label, label) for label in shape.labels]
    _refuse_duplicates(labels)
    return Shape(labels, shape.ndslice)
